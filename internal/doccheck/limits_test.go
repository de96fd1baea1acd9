package doccheck

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// Rows of the table of limits in README.md, and calls just beyond them. All are
// refused before anything is sent: nobody listens at the pool's address.
func TestLimits(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	locks, err := uniquelock.New(pool, uniquelock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(context.Background())
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}

	long := func(n int) string { return strings.Repeat("a", n) }
	options := func(o uniquelock.Options) func() error {
		return func() error { _, err := uniquelock.New(pool, o); return err }
	}
	try := func(key string, o uniquelock.LockOptions) func() error {
		return func() error { _, err := locks.TryLock(t.Context(), key, o); return err }
	}
	const day = 24 * time.Hour
	type call struct {
		field  string // must be in the error
		beyond func() error
	}
	for row, calls := range map[string][]call{
		"| Key | 1 to 512 bytes": {
			{"invalid key", try("", uniquelock.LockOptions{})},
			{"invalid key", try(long(513), uniquelock.LockOptions{})},
			{"invalid key", try("a\x00", uniquelock.LockOptions{})},
			{"invalid key", try("\xff", uniquelock.LockOptions{})},
		},
		"| Grant id, operation id | 1 to 128 bytes": {
			{"grant id", func() error {
				_, err := locks.TryAcquire(pgcoord.WithGrantID(t.Context(), long(129)), "k")
				return err
			}},
			{"operation id", func() error {
				_, err := locks.Resolve(t.Context(), "k", long(129))
				return err
			}},
		},
		"| TTL | 50 ms to 24 h": {
			{"Options.TTL", options(uniquelock.Options{TTL: 49 * time.Millisecond})},
			{"Options.TTL", options(uniquelock.Options{TTL: day + 1})},
			{"LockOptions.TTL", try("k", uniquelock.LockOptions{TTL: day + 1})},
		},
		"| Idle limit | 50 ms to 24 h": {
			{"Options.IdleLimit", options(uniquelock.Options{IdleLimit: 49 * time.Millisecond})},
			{"Options.IdleLimit", options(uniquelock.Options{IdleLimit: day + 1})},
		},
		"| Minimum hold | 0 to 24 h": {
			{"Options.MinHold", options(uniquelock.Options{MinHold: -1})},
			{"Options.MinHold", options(uniquelock.Options{MinHold: day + 1})},
		},
		"| Holder | up to 512 bytes": {{"Options.Holder", options(uniquelock.Options{Holder: long(513)})}},
		"| Metadata | up to 4,096 bytes": {
			{"LockOptions.Metadata", try("k", uniquelock.LockOptions{Metadata: map[string]string{"a": long(4096)}})},
		},
		"| Reason of a `Break` | up to 512 bytes": {
			{"reason", func() error { return locks.Break(t.Context(), "k", long(513)) }},
		},
		"| Ages for `Prune` | 1 min or more": {
			{"PruneOptions.Free", func() error {
				_, err := locks.Prune(t.Context(), uniquelock.PruneOptions{Free: time.Minute - 1})
				return err
			}},
		},
	} {
		if !strings.Contains(string(readme), "\n"+row) {
			t.Errorf("README.md does not say %q", row)
		}
		for i, c := range calls {
			if err := c.beyond(); err == nil || !strings.Contains(err.Error(), c.field) {
				t.Errorf("%s, call %d: %v, want a refusal that names the %s", row, i, err, c.field)
			}
		}
	}
	for _, o := range []uniquelock.Options{
		{TTL: 50 * time.Millisecond},
		{TTL: day, IdleLimit: 50 * time.Millisecond},
		{IdleLimit: day, MinHold: day, Holder: long(512)},
	} {
		if err := options(o)(); err != nil {
			t.Errorf("%+v, just within the limits: %v", o, err)
		}
	}
}
