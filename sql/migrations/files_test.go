package migrations_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pgcoord/pgcoord/sql/migrations"
)

var fileName = regexp.MustCompile(`^(\d{6})_([a-z_]+)\.(up|down)\.sql$`)

// files returns the embedded files by name.
func files(t *testing.T) map[string]string {
	t.Helper()
	names, err := fs.Glob(migrations.FS, "*")
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for _, name := range names {
		content, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		contents[name] = string(content)
	}
	return contents
}

// newest is the number of the last file.
func newest(t *testing.T) int {
	t.Helper()
	return len(files(t)) / 2
}

func TestFilesComeInPairsWithConsecutiveNumbers(t *testing.T) {
	names := map[int]map[string]string{} // number, direction, name
	all := files(t)
	for file := range all {
		parts := fileName.FindStringSubmatch(file)
		if parts == nil {
			t.Errorf("%s: not named as golang-migrate wants it", file)
			continue
		}
		number, err := strconv.Atoi(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		if names[number] == nil {
			names[number] = map[string]string{}
		}
		if other, ok := names[number][parts[3]]; ok {
			t.Errorf("number %d: two %s files: %s and %s", number, parts[3], other, parts[2])
		}
		names[number][parts[3]] = parts[2]
	}
	if len(names) == 0 {
		t.Fatal("no files")
	}
	for number := 1; number <= len(names); number++ {
		up, down := names[number]["up"], names[number]["down"]
		if up == "" || up != down {
			t.Errorf("number %d: up is %q, down is %q; numbers start at 1 without gaps", number, up, down)
		}
	}
}

// Each file is one transaction, which the migrator opens and ends.
func TestFilesCanRunInsideATransaction(t *testing.T) {
	outside := regexp.MustCompile(`(?mi)^\s*(begin|commit|rollback|start\s+transaction|vacuum|alter\s+system)\b[^:]*;|\bconcurrently\b`)
	comment := regexp.MustCompile(`--.*`)
	body := regexp.MustCompile(`(?s)\$\$.*?\$\$`)
	for name, content := range files(t) {
		plain := body.ReplaceAllString(comment.ReplaceAllString(content, ""), "''")
		if found := outside.FindString(plain); found != "" {
			t.Errorf("%s: %q cannot run inside a transaction", name, strings.TrimSpace(found))
		}
	}
}

// The time of a transaction's start is not the time of a grant.
func TestFilesReadTheClock(t *testing.T) {
	start := regexp.MustCompile(`(?i)\bnow\s*\(|\bcurrent_timestamp\b|\btransaction_timestamp\b|\bstatement_timestamp\b|\blocaltime`)
	for name, content := range files(t) {
		for i, line := range strings.Split(content, "\n") {
			if start.MatchString(line) {
				t.Error(fmt.Sprintf("%s:%d", name, i+1), line)
			}
		}
	}
}
