//go:build ignore

// Reads what `pgcoord demo --json` printed and fails unless the naive locks
// show their double effect and pgcoord does not.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

func main() {
	var demo struct {
		Scenarios []struct {
			Strategy         string
			Effects, Refused int
		}
	}
	if err := json.NewDecoder(os.Stdin).Decode(&demo); err != nil {
		fmt.Println("demo: no JSON:", err)
		os.Exit(1)
	}
	naive, safe, bad := 0, 0, 0
	for _, s := range demo.Scenarios {
		fmt.Printf("%-24s effects %d, refused %d\n", s.Strategy, s.Effects, s.Refused)
		ok := s.Effects == 1 && s.Refused >= 1
		if strings.HasPrefix(s.Strategy, "naive") {
			ok = s.Effects == 2 && s.Refused == 0
			naive++
		} else {
			safe++
		}
		if !ok {
			fmt.Printf("demo: %s: not what it must show\n", s.Strategy)
			bad++
		}
	}
	if naive == 0 || safe == 0 || bad > 0 {
		fmt.Printf("demo: %d naive scenarios, %d of pgcoord, %d wrong\n", naive, safe, bad)
		os.Exit(1)
	}
}
