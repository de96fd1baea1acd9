// Package limits has the bounds of the options that all strategies share.
package limits

import (
	"fmt"
	"os"
	"time"
)

const (
	// MinTTL and MaxTTL bound a TTL and what is measured by it.
	MinTTL = 50 * time.Millisecond
	MaxTTL = 24 * time.Hour
	// Holder bounds how a process names itself, in bytes.
	Holder = 512
)

// Duration returns nil when d is from least to MaxTTL; else an error that names
// the field.
func Duration(field string, d, least time.Duration) error {
	if d < least || d > MaxTTL {
		return fmt.Errorf("%s is %v, it must be from %v to %v", field, d, least, MaxTTL)
	}
	return nil
}

// ThisProcess names the process to others: its host and its id.
func ThisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s pid %d", host, os.Getpid())
}
