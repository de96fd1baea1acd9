package conformance

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
)

// keyChecks prove S11: equal bytes exclude each other, all others never do.
var keyChecks = []check{
	{clause: "S11", name: "bad_keys", run: badKeys},
	{clause: "S11", name: "hostile_keys_are_independent", run: hostileKeys},
}

// bad can name nothing in any strategy.
var bad = []string{"", "a\x00b", "a\xff", "\xc3", strings.Repeat("a", 513), strings.Repeat("a", 100_000)}

// hostile are keys that others have mixed up: by case, trailing spaces, Unicode
// normalisation, quoting, patterns, or a hash of few bits.
var hostile = []string{
	"k", "k ", " k", "K", "\u212a", "caf\u00e9", "cafe\u0301", "stra\u00dfe", "strasse",
	"\u202ek", "k\u200b", "\U0001f512", "k\n", "k\t", "\\", "\\x6b", "%", "_", "'", "''", "\"", "k'; DROP SCHEMA pgcoord CASCADE; --",
	"$1", "{}", "[\"k\"]", "NULL", "null", "0", "00", "1e0", strings.Repeat("a", 511), strings.Repeat("a", 512),
	"job-126573", "job-30387", "plumless", "buckeroo",
}

func badKeys(w *world) { // 47
	a := w.node(setup{})
	refused := func(key, verb string, err error) {
		w.Helper()
		w.wants(err, pgcoord.ErrInvalidKey, verb+" of a bad key")
		if len(err.Error()) > 5000 {
			w.Fatalf("the error about a key of %d bytes has %d", len(key), len(err.Error()))
		}
	}
	for _, key := range append(bad, w.strategy.BadKeys...) {
		_, err := a.TryAcquire(w.ctx, key)
		refused(key, "TryAcquire", err)
		_, err = a.Acquire(w.ctx, key)
		refused(key, "Acquire", err)
		_, err = a.Resolve(w.ctx, key, "op")
		refused(key, "Resolve", err)
	}
}

// hostileKeys holds all of them at once; each is held against its equal, and each
// remembers its own operations.
func hostileKeys(w *world) { // 47, 48, R8
	a, b := w.node(setup{}), w.node(setup{})
	if !w.strategy.DurableGuards {
		a, b = w.node(setup{conns: int32(len(hostile)) + 1}), w.node(setup{}) // a connection for each
	}
	var claims []pgcoord.Claim
	for _, key := range hostile {
		claims = append(claims, a.try(w.exactKey(key)))
	}
	for _, claim := range claims {
		ctx := operation(w, "op")
		w.must(claim.BeginFunc(ctx, counting(w.ctx, claim)), "operation on "+claim.Key())
		if !w.strategy.Supersedes {
			b.held(claim.Key())
			continue
		}
		end := w.begin(w.ctx, claim, func(pgx.Tx) error { return nil })
		b.held(claim.Key())
		w.must(end(nil), "end of the guarded transaction")
	}
	for _, claim := range claims {
		w.release(claim)
		w.release(b.try(claim.Key()))
		w.audit(claim.Key(), 1)
	}
}
