// Package schema looks at whether the tables and sequences in the database are
// what the library's promises rest on. Where they are not, nothing is granted.
package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Table is what is expected of a table of schema pgcoord.
type Table struct {
	Name   string
	Keys   []string // the columns of its primary key
	Times  []string // columns that are timestamptz
	Tokens string   // the column of its tokens
}

// Check looks at sequence and table in the catalogue, and for the row of cluster. Its error tells each fault
// with its cure.
func Check(ctx context.Context, conn *pgx.Conn, table Table) error {
	if err := checkSession(ctx, conn); err != nil {
		return err
	}
	if err := checkSequence(ctx, conn); err != nil {
		return err
	}
	if err := checkCluster(ctx, conn); err != nil {
		return err
	}
	return checkTable(ctx, conn, table)
}

const sessionSQL = `SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only') = 'on'`

func checkSession(ctx context.Context, conn *pgx.Conn) error {
	var standby, readOnly bool
	if err := conn.QueryRow(ctx, sessionSQL).Scan(&standby, &readOnly); err != nil {
		return err
	}
	switch {
	case standby:
		return errors.New("read-only: the server is a standby; connect to the primary (target_session_attrs=read-write)")
	case readOnly:
		return errors.New("read-only: default_transaction_read_only is on for this session; claims must write")
	}
	return nil
}

const sequenceSQL = `
SELECT s.seqcache, s.seqcycle, s.seqtypid = 'pg_catalog.int8'::pg_catalog.regtype, s.seqincrement, s.seqmax
  FROM pg_catalog.pg_sequence s WHERE s.seqrelid = pg_catalog.to_regclass('pgcoord.fencing_token_seq')`

var errMissing = errors.New("the schema pgcoord is missing or older than this library; apply sql/migrations (migrations.Up)")

const mendSequence = "ALTER SEQUENCE pgcoord.fencing_token_seq AS bigint INCREMENT 1 MAXVALUE 1099511627775 CACHE 1 NO CYCLE"

func checkSequence(ctx context.Context, conn *pgx.Conn) error {
	var cache, increment, limit int64
	var cycle, bigint bool
	err := conn.QueryRow(ctx, sequenceSQL).Scan(&cache, &cycle, &bigint, &increment, &limit)
	if errors.Is(err, pgx.ErrNoRows) {
		return errMissing
	}
	if err != nil {
		return err
	}
	var faults []error
	add := func(bad bool, what string) {
		if bad {
			faults = append(faults, fmt.Errorf("sequence pgcoord.fencing_token_seq %s, so tokens would not grow; mend it: %s", what, mendSequence))
		}
	}
	add(cache != 1, fmt.Sprintf("has CACHE %d", cache))
	add(cycle, "has CYCLE")
	add(!bigint, "is not of type bigint")
	add(increment != 1, fmt.Sprintf("has INCREMENT %d", increment))
	add(bigint && limit != 1<<40-1, fmt.Sprintf("has MAXVALUE %d", limit))
	return errors.Join(faults...)
}

// checkCluster looks for the row that every token is computed with.
func checkCluster(ctx context.Context, conn *pgx.Conn) error {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pgcoord.cluster)").Scan(&there); err != nil {
		return err
	}
	if !there {
		return errors.New("table pgcoord.cluster has lost its row, so there are no tokens; mend it: INSERT INTO pgcoord.cluster DEFAULT VALUES, then Repair")
	}
	return nil
}

const tableSQL = `
SELECT c.relpersistence::text,
       EXISTS (SELECT FROM pg_catalog.pg_index i
               WHERE i.indrelid = c.oid AND i.indisprimary AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
                 AND $2::text[] = ARRAY(
                   SELECT a.attname::text FROM pg_catalog.generate_series(0, i.indnkeyatts - 1) AS n
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[n] ORDER BY n)),
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND a.atttypid = 'pg_catalog.timestamptz'::pg_catalog.regtype)
  FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1)`

func checkTable(ctx context.Context, conn *pgx.Conn, table Table) error {
	name := "pgcoord." + table.Name
	var persistence string
	var unique bool
	var times []string
	err := conn.QueryRow(ctx, tableSQL, name, table.Keys).Scan(&persistence, &unique, &times)
	if errors.Is(err, pgx.ErrNoRows) {
		return errMissing
	}
	if err != nil {
		return err
	}
	var faults []error
	if persistence != "p" {
		faults = append(faults, fmt.Errorf("table %s is not logged, so a crash would empty it; mend it: ALTER TABLE %s SET LOGGED", name, name))
	}
	if columns := strings.Join(table.Keys, ", "); !unique {
		faults = append(faults, fmt.Errorf(
			"table %s has no immediate primary key on (%s), so a key could have two rows; mend it: ALTER TABLE %s ADD PRIMARY KEY (%s)",
			name, columns, name, columns))
	}
	have := map[string]bool{}
	for _, column := range times {
		have[column] = true
	}
	for _, column := range table.Times {
		if !have[column] {
			faults = append(faults, fmt.Errorf(
				"column %s of table %s is not timestamptz, so its meaning depends on each session's TimeZone; mend it: ALTER TABLE %s ALTER %s TYPE timestamptz",
				column, name, name, column))
		}
	}
	return errors.Join(faults...)
}
