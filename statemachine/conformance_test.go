package statemachine_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/conformance"
	"github.com/pgcoord/pgcoord/statemachine"
)

func TestConformance(t *testing.T) { conformance.Run(t, jobs) }

// jobs claims rows of a table with text keys.
var jobs = conformance.Strategy{
	Name: "statemachine",
	New: func(pool *pgxpool.Pool, t conformance.Tuning) (conformance.Coordinator, error) {
		m, err := statemachine.Define(statemachine.Definition{
			Table:   "public.jobs",
			Initial: []statemachine.State{"PENDING"},
			Transitions: []statemachine.Transition{
				{From: "PENDING", To: "PROCESSING"},
				{From: "PROCESSING", To: "DONE"},
				{From: "PROCESSING", To: "PENDING"},
			},
		})
		if err != nil {
			return nil, err
		}
		return statemachine.New(pool, statemachine.Options{
			Machine: m, Holder: t.Holder,
			Step: statemachine.Step{Ready: "PENDING", Working: "PROCESSING", Done: "DONE", TTL: t.TTL, IdleLimit: t.IdleLimit},
		})
	},
	Seed: func(ctx context.Context, pool *pgxpool.Pool, keys ...string) error {
		_, err := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS public.jobs (
			id text PRIMARY KEY,
			status text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'PROCESSING', 'DONE')),
			fencing_token bigint NOT NULL DEFAULT 0)`)
		if err != nil {
			return err
		}
		_, err = pool.Exec(ctx, "INSERT INTO public.jobs (id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING", keys)
		return err
	},
	Expire: func(ctx context.Context, pool *pgxpool.Pool, key string) error {
		_, err := pool.Exec(ctx, "UPDATE pgcoord.attempts SET expires_at = clock_timestamp() WHERE key = $1 AND ended_at IS NULL", key)
		return err
	},
	Tampers: []conformance.Tamper{
		{Name: "sequence caches", SQL: "ALTER SEQUENCE pgcoord.fencing_token_seq CACHE 20", Cure: "CACHE 1"},
		{Name: "sequence cycles", SQL: "ALTER SEQUENCE pgcoord.fencing_token_seq CYCLE", Cure: "NO CYCLE"},
		{Name: "table unlogged", SQL: "ALTER TABLE pgcoord.attempts SET UNLOGGED", Cure: "SET LOGGED"},
		{Name: "primary key dropped", SQL: "ALTER TABLE pgcoord.attempts DROP CONSTRAINT attempts_pkey", Cure: "PRIMARY KEY"},
		{Name: "cluster row deleted", SQL: "DELETE FROM pgcoord.cluster", Cure: "pgcoord.cluster"},
		{Name: "application table unlogged", SQL: "ALTER TABLE public.jobs SET UNLOGGED", Cure: "SET LOGGED"},
		{Name: "token may be null", SQL: "ALTER TABLE public.jobs ALTER fencing_token DROP NOT NULL", Cure: "NOT NULL"},
	},
	Leases: true, RemembersDone: true, DurableGuards: true, TokenAtGrant: true,
}
