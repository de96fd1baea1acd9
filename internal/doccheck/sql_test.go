package doccheck

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// Each block runs on a database of its own, with a role for what it grants.
func TestSQLBlocks(t *testing.T) {
	eachBlock(t, func(t *testing.T, d document, b block) {
		dsn := pgtest.DSN(t)
		role := pgtest.NewRole(t, dsn)
		sql := strings.ReplaceAll(b.text, " TO app;", " TO "+role.Name+";")
		if _, err := pgtest.Pool(t, dsn).Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Errorf("%s:%d: %v", d.name, b.line, err)
		}
	}, "sql")
}

var schemaName = regexp.MustCompile("`pgcoord\\.([a-z_]+)")

func TestSchemaNames(t *testing.T) {
	pool := pgtest.Pool(t, pgtest.DSN(t))
	n := 0
	for _, d := range documents(t) {
		for _, m := range schemaName.FindAllStringSubmatch(d.prose, -1) {
			n++
			var exists bool
			err := pool.QueryRow(t.Context(), `
				SELECT to_regclass('pgcoord.' || $1) IS NOT NULL
				    OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'pgcoord'::regnamespace AND proname = $1)`, m[1]).Scan(&exists)
			if err != nil || !exists {
				t.Errorf("%s: pgcoord.%s does not exist (%v)", d.name, m[1], err)
			}
		}
	}
	if n == 0 {
		t.Error("no document names anything of schema pgcoord")
	}
}
