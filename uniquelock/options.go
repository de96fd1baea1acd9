package uniquelock

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/keys"
	"github.com/pgcoord/pgcoord/internal/limits"
)

const maxMetadata = 4096 // bytes of JSON

// Options configure a Coordinator. The zero value works.
type Options struct {
	// TTL is how long a claim outlives its process: others may take the key that
	// long after the last renewal. Renewals come every third of it. 50 ms to 24 h.
	// Default: 30 s.
	TTL time.Duration

	// Holder names this process to others, in HeldError and List. At most 512
	// bytes. Default: the host's name and the process id.
	Holder string

	// MinHold keeps a key taken that long after its grant, even when it is released
	// or completed sooner: a short job does not run again on a host whose cron fires
	// a little later. At most 24 h. Default: 0.
	MinHold time.Duration

	// IdleLimit is how long a guarded transaction may wait for its function to send
	// the next statement; then the server ends it. It bounds how long a stopped
	// process blocks a key from within a guarded transaction. 50 ms to 24 h.
	// Default: TTL.
	IdleLimit time.Duration

	// Once makes Complete leave a done mark: the key is never granted again, and
	// every later acquire of it says ErrDone, until the mark is pruned. Default:
	// false, Complete frees the key.
	Once bool

	// Logger receives what happens in the background, at level Debug: renewals that
	// failed and are repeated, connections that were lost. Nothing on contention.
	// Default: none.
	Logger *slog.Logger
}

// LockOptions are the options of one claim, with the ranges of Options. The zero
// value takes those of the Coordinator.
type LockOptions struct {
	TTL      time.Duration     // default: Options.TTL
	MinHold  time.Duration     // default: Options.MinHold
	Metadata map[string]string // shown by List and the view pgcoord.held; at most 4,096 bytes as JSON. Default: none
}

func (o Options) withDefaults() Options {
	if o.TTL == 0 {
		o.TTL = 30 * time.Second
	}
	if o.IdleLimit == 0 {
		o.IdleLimit = o.TTL
	}
	if o.Holder == "" {
		o.Holder = limits.ThisProcess()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) check(pool *pgxpool.Pool) error {
	if pool == nil {
		return errors.New("pool is nil")
	}
	return errors.Join(
		limits.Duration("Options.TTL", o.TTL, limits.MinTTL),
		limits.Duration("Options.IdleLimit", o.IdleLimit, limits.MinTTL),
		limits.Duration("Options.MinHold", o.MinHold, 0),
		keys.CheckText("Options.Holder", o.Holder, limits.Holder),
	)
}

// terms are the options of one claim, checked and complete.
type terms struct {
	ttl, minHold time.Duration
	metadata     string // JSON
}

func (o Options) terms(lo LockOptions) (terms, error) {
	t := terms{ttl: lo.TTL, minHold: lo.MinHold, metadata: "{}"}
	if t.ttl == 0 {
		t.ttl = o.TTL
	}
	if t.minHold == 0 {
		t.minHold = o.MinHold
	}
	err := errors.Join(
		limits.Duration("LockOptions.TTL", t.ttl, limits.MinTTL),
		limits.Duration("LockOptions.MinHold", t.minHold, 0),
	)
	if err != nil || len(lo.Metadata) == 0 {
		return t, err
	}
	for name, value := range lo.Metadata {
		if err := errors.Join(keys.CheckText("LockOptions.Metadata", name, maxMetadata),
			keys.CheckText("LockOptions.Metadata", value, maxMetadata)); err != nil {
			return t, err
		}
	}
	text, err := json.Marshal(lo.Metadata)
	if err == nil && len(text) > maxMetadata {
		err = fmt.Errorf("LockOptions.Metadata has %d bytes as JSON, at most %d are allowed", len(text), maxMetadata)
	}
	t.metadata = string(text)
	return t, err
}
