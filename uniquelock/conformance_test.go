package uniquelock_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/conformance"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// freed and done are the two ways in which Complete ends a claim.
var (
	freed = strategy("uniquelock", uniquelock.Options{})
	done  = strategy("uniquelock once", uniquelock.Options{Once: true})
)

func TestConformance(t *testing.T) { conformance.Run(t, freed) }

// TestConformanceOnce runs the clauses in which completion has a part.
func TestConformanceOnce(t *testing.T) { conformance.Run(t, done, "S1", "S2", "S3", "S5", "S6") }

func strategy(name string, opts uniquelock.Options) conformance.Strategy {
	return conformance.Strategy{
		Name: name,
		New: func(pool *pgxpool.Pool, t conformance.Tuning) (conformance.Coordinator, error) {
			o := opts
			o.TTL, o.IdleLimit, o.Holder = t.TTL, t.IdleLimit, t.Holder
			return uniquelock.New(pool, o)
		},
		Expire: func(ctx context.Context, pool *pgxpool.Pool, key string) error {
			_, err := pool.Exec(ctx, "UPDATE pgcoord.task_locks SET expires_at = clock_timestamp() WHERE task_name = $1", key)
			return err
		},
		Tampers: tampers,
		Leases:  true, CreatesKeys: true, DurableGuards: true, TokenAtGrant: true, RemembersDone: opts.Once,
	}
}

var tampers = []conformance.Tamper{
	{Name: "sequence caches", SQL: "ALTER SEQUENCE pgcoord.fencing_token_seq CACHE 20", Cure: "CACHE 1"},
	{Name: "sequence cycles", SQL: "ALTER SEQUENCE pgcoord.fencing_token_seq CYCLE", Cure: "NO CYCLE"},
	{Name: "table unlogged", SQL: "ALTER TABLE pgcoord.task_locks SET UNLOGGED", Cure: "SET LOGGED"},
	{Name: "primary key dropped", SQL: "ALTER TABLE pgcoord.task_locks DROP CONSTRAINT task_locks_pkey", Cure: "PRIMARY KEY"},
	{Name: "cluster row deleted", SQL: "DELETE FROM pgcoord.cluster", Cure: "pgcoord.cluster"},
}
