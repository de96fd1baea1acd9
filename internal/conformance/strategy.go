package conformance

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
)

// Coordinator is what the constructor of a strategy returns.
type Coordinator interface {
	pgcoord.Coordinator
	pgcoord.Resolver
	Close(ctx context.Context) error
}

// Tuning is what the checks ask of a coordinator.
type Tuning struct {
	Holder    string        // as others are told
	TTL       time.Duration // of a claim that ends by itself
	IdleLimit time.Duration // after which a guarded transaction that does nothing is ended
}

// Strategy describes a strategy to the suite. The flags stand for the
// differences that the contract allows, and for nothing else.
type Strategy struct {
	// Name is that of the package, with what is special about the options.
	Name string
	// New makes a coordinator.
	New func(pool *pgxpool.Pool, t Tuning) (Coordinator, error)
	// Seed creates what the keys name. It is called without keys once for each
	// new database, to create tables. Nil where claims create their keys.
	Seed func(ctx context.Context, pool *pgxpool.Pool, keys ...string) error
	// Expire makes the database believe that the lease of key has ended, as a
	// clock that jumps does. Nil where there are no leases.
	Expire func(ctx context.Context, pool *pgxpool.Pool, key string) error
	// BadKeys can name nothing in this strategy, beside those that never can.
	BadKeys []string
	// Tampers are the states of the schema under which it must not grant.
	Tampers []Tamper

	Leases        bool // a claim outlives its process until its TTL
	CreatesKeys   bool // a claim creates its key; else ErrNotFound
	RemembersDone bool // a completed key is never granted again
	DurableGuards bool // what BeginFunc did is durable when it returns; else at Complete or Release
	TokenAtGrant  bool // a token is durable at the grant; else at Complete or Release
	Supersedes    bool // the newest claim wins unless a guarded transaction is open
}

// Tamper is damage to the schema.
type Tamper struct {
	Name string
	SQL  string // does the damage
	Cure string // must be in the error
}
