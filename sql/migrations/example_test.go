package migrations_test

import (
	"context"
	"fmt"
	"io/fs"
	"log"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

// What the examples use: a pool on a database of their own.
var (
	ctx  = context.Background()
	pool = pgtest.ExamplePool()
)

// At the start of a service: it does nothing when the schema is up to date.
func ExampleUp() {
	if err := migrations.Up(ctx, pool); err != nil {
		log.Fatal(err)
	}
	var tables int
	err := pool.QueryRow(ctx, "SELECT count(*) FROM pg_tables WHERE schemaname = 'pgcoord'").Scan(&tables)
	fmt.Println(tables > 0, err)
	// Output: true <nil>
}

func ExampleDown() {
	if err := migrations.Down(ctx, pool); err != nil {
		log.Fatal(err)
	}
	var tables int
	err := pool.QueryRow(ctx, "SELECT count(*) FROM pg_tables WHERE schemaname = 'pgcoord'").Scan(&tables)
	fmt.Println(tables, err)
	// Output: 0 <nil>
}

// For another tool that applies golang-migrate's files.
func Example_fS() {
	names, err := fs.Glob(migrations.FS, "000001_*")
	fmt.Println(names, err)
	// Output: [000001_tokens.down.sql 000001_tokens.up.sql] <nil>
}
