package localpg

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LogPrefix is the log_line_prefix of the servers that Start makes: time,
// process, database and SQLSTATE.
const LogPrefix = "%m [%p] db=%d state=%e "

// baseSettings hold on every server that Start makes, unless Options.Settings
// say otherwise.
func baseSettings() map[string]string {
	return map[string]string{
		"listen_addresses":           "127.0.0.1",
		"unix_socket_directories":    "",
		"max_connections":            "200",
		"logging_collector":          "off",
		"log_destination":            "stderr",
		"log_line_prefix":            LogPrefix,
		"log_min_messages":           "warning",
		"log_min_error_statement":    "error",
		"lc_messages":                "C",
		"timezone":                   "UTC",
		"log_timezone":               "UTC",
		"dynamic_shared_memory_type": "mmap", // in the folder, which is removed whole
	}
}

// writeSettings replaces the file at path. A file, not command line options:
// those would override ALTER SYSTEM, which tests use.
func writeSettings(path string, settings map[string]string) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// configure writes the settings beside initdb's own file, which includes them.
func (l *local) configure(extra map[string]string) error {
	settings := baseSettings()
	maps.Copy(settings, extra)
	settings["port"] = fmt.Sprint(l.port)
	if err := writeSettings(filepath.Join(l.folder.data(), "pgcoord.conf"), settings); err != nil {
		return err
	}
	main := filepath.Join(l.folder.data(), "postgresql.conf")
	content, err := os.ReadFile(main)
	if err != nil {
		return err
	}
	const include = "\ninclude 'pgcoord.conf'\n"
	if strings.HasSuffix(string(content), include) {
		return nil
	}
	return os.WriteFile(main, append(content, include...), 0o600)
}

// The ports that freePort gives out lie below the range from which Linux, macOS
// and Windows take the ports of outgoing connections. A client that dials a
// port of that range while its server is down can be given the same port
// itself and then talks to nobody but itself.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// freePort returns a port of loopback that nobody listens on now.
func freePort() (int, error) {
	const tries = 100
	for range tries {
		if port := lowestPort + rand.IntN(highestPort-lowestPort); portFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1: tried %d between %d and %d", tries, lowestPort, highestPort)
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	_ = l.Close() // nobody has connected: nothing can be lost
	return true
}
