// Package prune deletes old rows in batches that wait for nobody.
package prune

import (
	"context"
	"fmt"
	"time"

	"github.com/pgcoord/pgcoord/internal/statement"
)

const (
	// Batch is how many rows one statement deletes.
	Batch = 1000

	minAge = time.Minute // far above the life of any statement
)

// Age returns nil for 0 and for an age that no statement under way can reach; else
// an error that names the field.
func Age(field string, age time.Duration) error {
	if age != 0 && age < minAge {
		return fmt.Errorf("%s is %v, it must be 0 or at least %v", field, age, minAge)
	}
	return nil
}

// All repeats sql, which deletes at most Batch rows, until it finds no more.
func All(ctx context.Context, run *statement.Runner, sql string, args ...any) (total int64, err error) {
	for {
		rows, _, err := run.Exec(ctx, sql, args...)
		total += rows
		if err != nil || rows < Batch {
			return total, err
		}
	}
}

const operationsSQL = `
DELETE FROM pgcoord.operations o USING (
  SELECT p.domain, p.key, p.operation_id FROM pgcoord.operations p
   WHERE p.domain = $1::text AND p.decided_at < pg_catalog.clock_timestamp() - $2::bigint * interval '1 microsecond'
   LIMIT $3::int FOR UPDATE SKIP LOCKED) l
 WHERE o.domain = l.domain AND o.key = l.key AND o.operation_id = l.operation_id`

// Operations deletes the record of operations of a domain that were decided longer
// ago than age. An age of 0 deletes none.
func Operations(ctx context.Context, run *statement.Runner, domain string, age time.Duration) (int64, error) {
	if age == 0 {
		return 0, nil
	}
	return All(ctx, run, operationsSQL, domain, age.Microseconds(), Batch)
}
