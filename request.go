package pgcoord

import "context"

type (
	grantIDKey   struct{}
	operationKey struct{}
)

// WithGrantID makes the acquires under ctx recognise each other by id: a
// repetition of one whose reply was lost returns the claim that the first won,
// instead of ErrHeld. An id names one attempt to hold one key; use a new one
// for each. It has 1 to 128 bytes of valid UTF-8 without NUL.
//
// Whoever uses the same id on the same key shares the claim.
func WithGrantID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, grantIDKey{}, id)
}

// GrantID returns the id set by WithGrantID, and whether there is one.
func GrantID(ctx context.Context) (id string, ok bool) {
	id, ok = ctx.Value(grantIDKey{}).(string)
	return id, ok
}

// WithOperation gives the guarded transactions under ctx a stable id of the
// operation they perform on their key, for instance the id of the request
// that caused it. An operation is applied at most once, whatever is retried:
// a repetition fails with ErrDone before its function runs. The id has 1 to
// 128 bytes of valid UTF-8 without NUL.
//
// An id covers one transaction: a second one under it is a repetition, also
// within the same claim. It belongs to its key, and is remembered until it is
// pruned.
func WithOperation(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, operationKey{}, id)
}

// Operation returns the id set by WithOperation, and whether there is one.
func Operation(ctx context.Context) (id string, ok bool) {
	id, ok = ctx.Value(operationKey{}).(string)
	return id, ok
}

// withoutOperation takes the id away, for a transaction that is not part of the
// operation.
func withoutOperation(ctx context.Context) context.Context {
	return context.WithValue(ctx, operationKey{}, nil)
}
