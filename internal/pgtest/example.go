package pgtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/localpg"
)

// examples are the pools that ExamplePool has made in this test binary.
var examples struct {
	mu  sync.Mutex
	all []*example
}

// example is the database behind one pool. It is made when it is first needed,
// so that a run without examples makes none.
type example struct {
	pool   *pgxpool.Pool
	setup  []string
	make   sync.Once
	server *localpg.Server
	name   string
	err    error
}

// ExamplePool opens the pool for a package's examples, which have no testing.TB:
//
//	var pool = pgtest.ExamplePool("CREATE TABLE …")
//
// Its database has the migrations applied and setup run. It is made when an
// example first connects; Main drops it.
func ExamplePool(setup ...string) *pgxpool.Pool {
	// Nobody listens there: the first connection learns where to go.
	config, err := pgxpool.ParseConfig("postgres://127.0.0.1:1/example")
	if err != nil {
		panic(err)
	}
	e := &example{setup: setup}
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if e.make.Do(e.create); e.err != nil {
			return e.err
		}
		return e.point(c)
	}
	e.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		panic(err)
	}
	examples.mu.Lock()
	defer examples.mu.Unlock()
	examples.all = append(examples.all, e)
	return e.pool
}

func (e *example) create() {
	var template string
	if e.server, template, e.err = sharedServer(); e.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	e.name = databaseName("example")
	if e.err = run(ctx, e.server, "CREATE DATABASE "+e.name+" TEMPLATE "+template); e.err != nil {
		return
	}
	conn, err := pgx.Connect(ctx, e.server.DSN(e.name))
	if err != nil {
		e.err = fmt.Errorf("pgtest: %w", err)
		return
	}
	defer conn.Close(ctx)
	for _, sql := range e.setup {
		if _, err := conn.Exec(ctx, sql); err != nil {
			e.err = fmt.Errorf("pgtest: %s: %w", sql, err)
			return
		}
	}
}

// point makes c lead to the example's database.
func (e *example) point(c *pgx.ConnConfig) error {
	to, err := pgx.ParseConfig(e.server.DSN(e.name))
	if err == nil {
		*c = *to
	}
	return err
}

// dropExamples drops the databases; that ends their connections.
func dropExamples() error {
	examples.mu.Lock()
	defer examples.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var errs []error
	for _, e := range examples.all {
		if e.name != "" {
			errs = append(errs, run(ctx, e.server, "DROP DATABASE IF EXISTS "+e.name+" WITH (FORCE)"))
		}
	}
	examples.all = nil
	return errors.Join(errs...)
}
