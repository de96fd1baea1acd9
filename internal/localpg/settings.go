package localpg

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LogPrefix is the log_line_prefix of the servers that Start makes: time,
// process, database and SQLSTATE.
const LogPrefix = "%m [%p] db=%d state=%e "

// settings returns what holds on a server that Start makes, whatever its kind.
func (o Options) settings() map[string]string {
	settings := map[string]string{
		"max_connections":         "200",
		"log_destination":         "stderr",
		"logging_collector":       "off",
		"log_line_prefix":         LogPrefix,
		"log_min_messages":        "warning",
		"log_min_error_statement": "error",
		"lc_messages":             "C",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
	}
	if o.InMemory {
		settings["max_wal_size"] = "256MB"
	}
	maps.Copy(settings, o.Settings)
	return settings
}

// settingsFile is included by the server's own file. Settings are not given as
// command line options, because those override ALTER SYSTEM, which tests use.
const settingsFile = "pgcoord.conf"

// configure writes the settings of a local server.
func (l *local) configure() error {
	settings := map[string]string{
		"listen_addresses":           "127.0.0.1",
		"unix_socket_directories":    "",
		"dynamic_shared_memory_type": "mmap", // in the folder, which is removed whole
	}
	maps.Copy(settings, l.settings)
	settings["port"] = fmt.Sprint(l.port)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return os.WriteFile(filepath.Join(l.folder.data(), settingsFile), []byte(b.String()), 0o644)
}

func (l *local) includeSettings() error {
	path := filepath.Join(l.folder.data(), "postgresql.conf")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "\ninclude '%s'\n", settingsFile)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}
