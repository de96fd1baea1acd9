package pgcoord

import (
	"context"
	"errors"
	"time"
)

// endLimit bounds how long Do and TryDo try to complete or release a claim
// after the work has returned. The caller's context may be over by then.
const endLimit = 10 * time.Second

// Do waits for the claim on key, runs fn under it and completes it. When fn
// returns an error or panics, Do releases the claim instead, after fn has
// returned.
//
// The context given to fn ends with cause [ErrLost] when the claim is lost. fn
// may complete the claim itself, to store its last writes in that commit. What
// it writes by another way than the claim's BeginFunc and Complete is not
// guarded.
//
// Do returns nil once the claim is completed; else the error of Acquire, of fn
// (joined with ErrLost if the claim was lost meanwhile) or of Complete. To
// complete or release it takes 10 s at most, also when ctx has ended.
func Do(ctx context.Context, c Coordinator, key string, fn func(ctx context.Context, claim Claim) error) error {
	claim, err := c.Acquire(ctx, key)
	if err != nil {
		return err
	}
	return run(ctx, claim, fn)
}

// TryDo is Do for a key that is free now: where Do waits, it fails with
// [ErrHeld] at once and fn does not run.
func TryDo(ctx context.Context, c Coordinator, key string, fn func(ctx context.Context, claim Claim) error) error {
	claim, err := c.TryAcquire(ctx, key)
	if err != nil {
		return err
	}
	return run(ctx, claim, fn)
}

func run(ctx context.Context, claim Claim, fn func(ctx context.Context, claim Claim) error) (err error) {
	workCtx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-claim.Lost():
			cancel(ErrLost)
		case <-workCtx.Done():
		}
	}()

	returned := false
	// Deferred, so that a panic and runtime.Goexit in fn end the claim too.
	defer func() {
		lost := errors.Is(context.Cause(workCtx), ErrLost)
		cancel(nil)
		<-watched
		endCtx, stop := context.WithTimeout(withoutOperation(context.WithoutCancel(ctx)), endLimit)
		defer stop()
		if !returned {
			_ = claim.Release(endCtx) // the panic is what the caller must see
			return
		}
		err = end(endCtx, claim, err, lost)
	}()
	err = fn(workCtx, claim)
	returned = true
	return err
}

// end completes the claim of a work that succeeded and releases that of one
// that failed.
func end(ctx context.Context, claim Claim, workErr error, lost bool) error {
	if workErr == nil {
		err := claim.Complete(ctx, nil)
		if err == nil || errors.Is(err, ErrDone) { // ErrDone: fn completed it
			return nil
		}
		if !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrLost) {
			_ = claim.Release(ctx) // the error of Complete is the one that matters
		}
		return err
	}
	releaseErr := claim.Release(ctx)
	if errors.Is(releaseErr, ErrLost) {
		lost, releaseErr = true, nil
	}
	if lost && !errors.Is(workErr, ErrLost) {
		workErr = errors.Join(workErr, ErrLost)
	}
	if releaseErr != nil {
		return errors.Join(workErr, releaseErr)
	}
	return workErr
}
