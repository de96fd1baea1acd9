package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

// tidyLimit bounds how long the demo tries to take its traces away.
const tidyLimit = 10 * time.Second

// ledgerMark is the comment on the demo's schema: one without it is not dropped.
const ledgerMark = "made by pgcoord demo, which drops it"

const createLedger = `
CREATE SCHEMA pgcoord_demo;
COMMENT ON SCHEMA pgcoord_demo IS '` + ledgerMark + `';
CREATE TABLE pgcoord_demo.orders (
    id            integer PRIMARY KEY,
    charged_cents integer NOT NULL DEFAULT 0,
    status        text    NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'PROCESSING', 'PAID')),
    fencing_token bigint  NOT NULL DEFAULT 0, -- of statemachine
    claimed_at    timestamptz                 -- of naive-cas
);
CREATE TABLE pgcoord_demo.effects (
    id       bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id integer NOT NULL REFERENCES pgcoord_demo.orders,
    worker   text    NOT NULL,
    token    bigint  NOT NULL,
    cents    integer NOT NULL
);`

// database is the PostgreSQL that the demo plays on.
type database struct {
	dsn   string
	pool  *pgxpool.Pool
	label string // what people should know about the server
	own   bool   // the server goes away with the demo

	server *localpg.Server // nil when the user named a database
	turn   *pgxpool.Conn   // holds the lock that keeps two demos apart
	ledger bool            // the demo's schema is there
}

// open connects to db.dsn, or to a server of localpg when that is empty, and
// makes the schemas. Also after a failure, close takes away what it made.
func (db *database) open(ctx context.Context) error {
	if db.dsn == "" {
		if err := db.start(ctx); err != nil {
			return err
		}
	} else if err := db.describe(ctx); err != nil {
		return fmt.Errorf("--database-url: %w", err)
	}
	var err error
	if db.pool, err = connect(ctx, db.dsn, sessionName("parent")); err != nil {
		return err
	}
	if err := db.takeTurn(ctx); err != nil {
		return err
	}
	if err := db.migrate(ctx); err != nil {
		return err
	}
	return db.createLedger(ctx)
}

// start finds or starts a server.
func (db *database) start(ctx context.Context) error {
	server, err := localpg.Start(ctx, localpg.Options{})
	if err != nil {
		return err
	}
	db.server = server
	db.own = server.Kind() != localpg.KindURL
	db.label = server.String()
	db.dsn = server.DSN("postgres")
	if !db.own {
		db.dsn = os.Getenv(localpg.EnvURL)
	}
	return nil
}

// describe labels the database that the user named.
func (db *database) describe(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, db.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var version, name string
	err = conn.QueryRow(ctx, `SELECT split_part(current_setting('server_version'), ' ', 1), current_database()`).Scan(&version, &name)
	db.label = fmt.Sprintf("PostgreSQL %s, database %q (--database-url)", version, name)
	return err
}

// takeTurn keeps a second demo out of the same database: both would use the
// same schema.
func (db *database) takeTurn(ctx context.Context) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	db.turn = conn
	var mine bool
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended('pgcoord demo', 0))`).Scan(&mine)
	if err != nil {
		return err
	}
	if !mine {
		return errors.New("another demo is running on this database")
	}
	return nil
}

// migrate installs pgcoord's schema where there is none. A schema that the user
// has installed is not touched.
func (db *database) migrate(ctx context.Context) error {
	var installed, current bool
	err := db.pool.QueryRow(ctx, `
		SELECT to_regclass('pgcoord.task_locks') IS NOT NULL, to_regclass('pgcoord.attempts') IS NOT NULL`).Scan(&installed, &current)
	switch {
	case err != nil || current:
		return err
	case installed:
		return errors.New("schema pgcoord of this database is older than this program; bring it up to date with migrations.Up first")
	}
	if err := migrations.Up(ctx, db.pool); err != nil {
		return err
	}
	if !db.own {
		db.label += "; schema pgcoord was missing, the demo has installed it, and it stays."
	}
	return nil
}

func (db *database) createLedger(ctx context.Context) error {
	// One that an earlier demo could not drop, because it was killed.
	if err := db.dropLedger(ctx); err != nil {
		return err
	}
	if _, err := db.pool.Exec(ctx, createLedger); err != nil {
		return fmt.Errorf("make schema pgcoord_demo: %w", err)
	}
	db.ledger = true
	return nil
}

func (db *database) dropLedger(ctx context.Context) error {
	var foreign bool
	err := db.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM pg_namespace
		                WHERE nspname = 'pgcoord_demo'
		                  AND obj_description(oid, 'pg_namespace') IS DISTINCT FROM $1)`, ledgerMark).Scan(&foreign)
	if err != nil {
		return err
	}
	if foreign {
		return errors.New("schema pgcoord_demo exists and was not made by this demo; rename or drop it first")
	}
	if _, err := db.pool.Exec(ctx, `DROP SCHEMA IF EXISTS pgcoord_demo CASCADE`); err != nil {
		return fmt.Errorf("drop schema pgcoord_demo: %w", err)
	}
	// Its history goes with the table: the next demo counts attempts from 1.
	if _, err := db.pool.Exec(ctx, `DELETE FROM pgcoord.attempts WHERE machine = $1`, machineName); err != nil {
		return fmt.Errorf("delete the attempts of the demo: %w", err)
	}
	return nil
}

// close takes away what the demo made, also when its context is over.
func (db *database) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), tidyLimit)
	defer cancel()
	var errs []error
	if db.ledger && !db.own {
		errs = append(errs, db.dropLedger(ctx))
	}
	if db.turn != nil {
		// The lock ends with its session, however the session ends.
		errs = append(errs, db.turn.Hijack().Close(ctx))
	}
	if db.pool != nil {
		db.pool.Close()
	}
	if db.server != nil {
		errs = append(errs, db.server.Stop())
	}
	return errors.Join(errs...)
}

// connect returns a pool whose sessions carry name, and which has connected.
func connect(ctx context.Context, dsn, name string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = name
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// sessionName is the application_name of a part's sessions.
func sessionName(part string) string { return "pgcoord demo: " + part }
