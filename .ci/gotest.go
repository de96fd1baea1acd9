//go:build ignore

// Reads the events of go test -json: shows packages, and the output of tests
// that failed or were skipped. It fails when nothing ran and when a test was
// skipped: here everything is there that a test may need. The counts are added
// to the file that CI_COUNTS names.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

type event struct {
	Action, Package, ImportPath, Test, Output string
}

type report struct {
	output                  map[string]string // by package and test
	passed, failed, skipped int
}

func main() {
	r := report{output: map[string]string{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text())
			continue
		}
		r.add(e)
	}
	if err := lines.Err(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("tests: %d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	r.save(os.Getenv("CI_COUNTS"))
	if r.passed == 0 || r.failed+r.skipped > 0 {
		os.Exit(1)
	}
}

func (r *report) add(e event) {
	id := e.Package + "\x00" + e.Test
	switch e.Action {
	case "build-output":
		fmt.Print(e.Output)
	case "output":
		r.output[id] += e.Output
	case "pass":
		if e.Test != "" {
			r.passed++
		} else {
			fmt.Print(lastLine(r.output[id]))
		}
		delete(r.output, id)
	case "skip":
		if e.Test != "" {
			r.skipped++
			fmt.Print(r.output[id])
		}
		delete(r.output, id)
	case "fail":
		if e.Test != "" {
			r.failed++
		}
		fmt.Print(r.output[id])
		delete(r.output, id)
		if e.Test == "" { // tests that the end of the process cut off
			r.showRest(e.Package)
		}
	}
}

func (r *report) showRest(pkg string) {
	for id, text := range r.output {
		if strings.HasPrefix(id, pkg+"\x00") {
			fmt.Print(text)
			delete(r.output, id)
		}
	}
}

func (r *report) save(name string) {
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, r.passed, r.failed)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// lastLine is the one with the package's name and time.
func lastLine(s string) string {
	s = strings.TrimRight(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:] + "\n"
}
