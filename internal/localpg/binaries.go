package localpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// oldestMajor is the oldest release that pgcoord supports.
const oldestMajor = 14

// binaries is one installed PostgreSQL.
type binaries struct {
	dir     string
	version string // for instance 15.18
}

func (b binaries) path(name string) string { return filepath.Join(b.dir, executable(name)) }

func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// installFolders are the places where packages put the binaries of each major.
var installFolders = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // Red Hat and kin, from the PostgreSQL project
	"/usr/libexec/postgresql*",           // Alpine
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on ARM
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// findBinaries returns the newest supported PostgreSQL: the folder that
// PGCOORD_POSTGRES_BIN names and no other when it is set; else the newest of the
// usual places; else what is in PATH.
func findBinaries(ctx context.Context) (binaries, error) {
	if dir := os.Getenv(EnvBin); dir != "" {
		b, err := inspect(ctx, dir)
		if err != nil {
			return b, fmt.Errorf("%s=%s: %w", EnvBin, dir, err)
		}
		return b, nil
	}
	var found []binaries
	var refused []string
	for _, dir := range candidateFolders() {
		b, err := inspect(ctx, dir)
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v", dir, err))
			continue
		}
		found = append(found, b)
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b binaries) int { return compareVersions(a.version, b.version) }), nil
	}
	if len(refused) > 0 {
		return binaries{}, fmt.Errorf("no usable initdb and postgres (%s)", strings.Join(refused, "; "))
	}
	return binaries{}, fmt.Errorf("no initdb and postgres in %s=, %s or PATH", EnvBin, installFolders[0])
}

// candidateFolders lists the folders that have an initdb. PATH is asked only
// when the usual places have none, because they are tied to a version.
func candidateFolders() []string {
	var dirs []string
	for _, pattern := range installFolders {
		matches, _ := filepath.Glob(filepath.Join(pattern, executable("initdb")))
		for _, m := range matches {
			dirs = append(dirs, filepath.Dir(m))
		}
	}
	if len(dirs) > 0 {
		return dirs
	}
	path, err := exec.LookPath(executable("initdb"))
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return []string{filepath.Dir(path)}
}

var versionPattern = regexp.MustCompile(`\d+(\.\d+)*`)

// inspect tells whether dir has a server of a supported major.
func inspect(ctx context.Context, dir string) (binaries, error) {
	b := binaries{dir: dir}
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(b.path(name)); err != nil {
			return b, err
		}
	}
	out, err := exec.CommandContext(ctx, b.path("postgres"), "--version").Output()
	if err != nil {
		return b, fmt.Errorf("postgres --version: %w", err)
	}
	b.version = versionPattern.FindString(string(out))
	if m := major(b.version); m < oldestMajor {
		return b, fmt.Errorf("version %q is older than %d", b.version, oldestMajor)
	}
	return b, nil
}

func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; i < len(as) && i < len(bs); i++ {
		x, _ := strconv.Atoi(as[i])
		y, _ := strconv.Atoi(bs[i])
		if x != y {
			return x - y
		}
	}
	return len(as) - len(bs)
}
