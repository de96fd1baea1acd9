package pgtest

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Role is an ordinary role: it may log in and has only what it is granted.
type Role struct{ Name, password string }

// Login changes a pool's configuration to log in as the role:
//
//	pool := pgtest.Pool(t, dsn, role.Login)
func (r Role) Login(c *pgxpool.Config) {
	c.ConnConfig.User, c.ConnConfig.Password = r.Name, r.password
}

// NewRole makes a role without any grants. It is dropped at cleanup, with all
// that it owns in the database of dsn.
func NewRole(tb testing.TB, dsn string) Role {
	tb.Helper()
	role := Role{Name: "r_" + strings.ToLower(rand.Text()[:12]), password: rand.Text()}
	execute(tb, dsn, "CREATE ROLE "+role.Name+" LOGIN PASSWORD '"+role.password+"'")
	tb.Cleanup(func() {
		execute(tb, dsn, "DROP OWNED BY "+role.Name, "DROP ROLE "+role.Name)
	})
	return role
}

// DocumentedRole makes a role that has the grants of docs/operations.md in the
// database of dsn, as they stand there, and nothing else.
func DocumentedRole(tb testing.TB, dsn string) Role {
	tb.Helper()
	role := NewRole(tb, dsn)
	for _, grant := range documentedGrants(tb) {
		execute(tb, dsn, strings.Replace(grant, " TO app;", " TO "+role.Name, 1))
	}
	return role
}

var privileges = regexp.MustCompile("(?s)\n## Privileges\n.*?\n```sql\n(.*?)```\n")

// documentedGrants reads the sql block of the section Privileges.
func documentedGrants(tb testing.TB) []string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(projectFolder(tb), "docs", "operations.md"))
	if err != nil {
		tb.Fatal(err)
	}
	block := privileges.FindSubmatch(text)
	if block == nil {
		tb.Fatal("pgtest: docs/operations.md has no sql block under Privileges")
	}
	grants := strings.Split(strings.TrimSpace(string(block[1])), "\n")
	for _, grant := range grants {
		if !strings.HasPrefix(grant, "GRANT ") || !strings.HasSuffix(grant, " TO app;") {
			tb.Fatalf("pgtest: docs/operations.md, Privileges: not a grant to app on one line: %q", grant)
		}
	}
	return grants
}

// projectFolder is the nearest one above the test that has the documents.
func projectFolder(tb testing.TB) string {
	tb.Helper()
	folder, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "docs", "operations.md")); err == nil {
			return folder
		}
		up := filepath.Dir(folder)
		if up == folder {
			tb.Fatal("pgtest: no docs/operations.md above the test")
		}
		folder = up
	}
}

// execute runs statements in the database of dsn, as its role.
func execute(tb testing.TB, dsn string, statements ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			tb.Fatalf("pgtest: %s: %v", sql, err)
		}
	}
}
