package migrations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// lockLimit bounds the wait for tables that are in use: behind a waiting
	// migration everybody else waits too, renewals of leases among them.
	lockLimit = "5s"
	// endLimit bounds saying goodbye to the server.
	endLimit = 5 * time.Second
)

// driver is golang-migrate's way to the database. Other than the migrator's own
// one it stores what a file does and its version in one commit, so that a
// failure leaves nothing to be mended by hand, and it ends when its context does.
type driver struct {
	ctx     context.Context // the methods of database.Driver have none
	conn    *pgx.Conn
	place   place
	table   string // the version table, quoted
	lockID  string
	file    []byte
	failure error // the first one; what comes after is read and not run
}

var _ database.Driver = (*driver)(nil)

// connect takes a connection out of pool and looks where it leads.
func connect(ctx context.Context, pool *pgxpool.Pool) (*driver, error) {
	pooled, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	d := &driver{ctx: ctx, conn: pooled.Hijack()}
	if err := d.look(); err != nil {
		_ = d.Close() // the reason is the error that matters
		return nil, err
	}
	return d, nil
}

func (d *driver) look() (err error) {
	if d.place, err = findPlace(d.ctx, d.conn); err != nil {
		return err
	}
	d.table = pgx.Identifier{d.place.schema, Table}.Sanitize()
	// As the migrate command computes it: it takes the database from a URL's path.
	d.lockID, err = database.GenerateAdvisoryLockId("/"+d.place.database, d.place.schema, Table)
	return err
}

// Lock waits for the migrators' lock and makes the version table. It is called
// once, by the run.
func (d *driver) Lock() error {
	if _, err := d.conn.Exec(d.ctx, "SELECT pg_advisory_lock($1::text::bigint)", pgx.QueryExecModeExec, d.lockID); err != nil {
		return d.fail(fmt.Errorf("waiting for another migrator: %w", err))
	}
	return d.fail(d.place.prepare(d.ctx, d.conn, d.table))
}

// Unlock frees the lock. Where the connection is gone, the lock is too.
func (d *driver) Unlock() error {
	if d.conn.IsClosed() {
		return nil
	}
	_, err := d.conn.Exec(d.ctx, "SELECT pg_advisory_unlock($1::text::bigint)", pgx.QueryExecModeExec, d.lockID)
	return err
}

// Close ends the connection.
func (d *driver) Close() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), endLimit)
	defer cancel()
	return d.conn.Close(ctx)
}

// Version reads the version that stands, or database.NilVersion.
func (d *driver) Version() (version int, dirty bool, err error) {
	err = d.conn.QueryRow(d.ctx, "SELECT version, dirty FROM "+d.table, pgx.QueryExecModeExec).Scan(&version, &dirty)
	if errors.Is(err, pgx.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, d.fail(describe(err, d.place))
}

// Run keeps the file until its version is set. It always reads it: goroutines
// of the migrator wait for that.
func (d *driver) Run(file io.Reader) (err error) {
	d.file, err = io.ReadAll(file)
	return err
}

// SetVersion is called before each file, with dirty set, and after it.
func (d *driver) SetVersion(version int, dirty bool) error {
	file := d.file
	if dirty {
		d.file = nil
		return nil
	}
	if d.failure == nil {
		_ = d.fail(describe(d.store(version, string(file)), d.place))
	}
	return nil // the migrator would leave its goroutines behind
}

// store runs file and records version in one transaction.
func (d *driver) store(version int, file string) error {
	return pgx.BeginFunc(d.ctx, d.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(d.ctx, "SET LOCAL lock_timeout = '"+lockLimit+"'"); err != nil {
			return err
		}
		if _, err := tx.Exec(d.ctx, file); err != nil {
			return fmt.Errorf("to version %d: %w", version, err)
		}
		if _, err := tx.Exec(d.ctx, "DELETE FROM "+d.table); err != nil {
			return err
		}
		if version == database.NilVersion {
			return nil
		}
		_, err := tx.Exec(d.ctx, "INSERT INTO "+d.table+" (version, dirty) VALUES ($1, false)", pgx.QueryExecModeExec, version)
		return err
	})
}

func (d *driver) fail(err error) error {
	if d.failure == nil {
		d.failure = err
	}
	return err
}

// Open is for drivers that are made from a URL.
func (d *driver) Open(string) (database.Driver, error) {
	return nil, errors.New("not made from a URL")
}

// Drop is not part of what this package does.
func (d *driver) Drop() error {
	return errors.New("drop is not supported")
}
