package localpg

import (
	"os"
	"strings"
)

// log returns the whole log.
func (l *local) log() string { return l.logFrom(0) }

// logFrom returns what was logged after the first offset bytes.
func (l *local) logFrom(offset int64) string {
	content, err := os.ReadFile(l.folder.log())
	if err != nil || int64(len(content)) < offset {
		return ""
	}
	return strings.TrimSpace(string(content[offset:]))
}
