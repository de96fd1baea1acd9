package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pgcoord/pgcoord/internal/faultproxy"
)

// historyChecks record what happens in disorder, and have it checked against the
// model of a fenced lock.
var historyChecks = []check{
	{clause: "S3", name: "history_is_linearizable", run: historyIsLinearizable},
}

const (
	disorder    = 4 * time.Second // how long a history is at least
	worthwhile  = 10              // grants, releases and guarded transactions that it has
	historyTTL  = 300 * time.Millisecond
	historyKeys = 2
)

// recorder collects operations with the times of their calls and returns.
type recorder struct {
	w     *world
	start time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	tally map[string]int
}

func (r *recorder) now() int64 { return int64(time.Since(r.start)) }

func (r *recorder) add(from, to int64, c call, out result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{Input: c, Call: from, Output: out, Return: to})
	r.tally[c.Kind.String()+" "+out.Verdict.String()]++
}

func historyIsLinearizable(w *world) {
	r := &recorder{w: w, start: time.Now(), tally: map[string]int{}}
	var keys []string
	for i := range historyKeys {
		keys = append(keys, w.key(string(rune('a'+i))))
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	resolver := w.node(setup{})
	var running sync.WaitGroup
	for i := range 4 {
		n := w.node(setup{ttl: historyTTL, idle: historyTTL, proxied: true})
		running.Go(func() { w.disturb(ctx, n) })
		for j := range 2 {
			worker := &worker{recorder: r, node: n, resolver: resolver, rand: rand.New(rand.NewPCG(uint64(i), uint64(j)))}
			running.Go(func() { worker.run(ctx, keys) })
		}
	}
	running.Go(func() { r.readAll(ctx, keys) })
	running.Go(func() { r.endAfter(disorder, cancel) })
	running.Wait()
	r.judge()
}

// endAfter ends the disorder when the history is worth to be judged.
func (r *recorder) endAfter(d time.Duration, end func()) {
	defer end()
	pause(r.w.ctx, d)
	for !r.worthwhile() && r.w.ctx.Err() == nil {
		pause(r.w.ctx, historyTTL)
	}
}

func (r *recorder) worthwhile() bool {
	what := []string{"grant ok", "release ok", "guarded ok"}
	if !r.w.strategy.DurableGuards || !r.w.strategy.TokenAtGrant {
		what = []string{"complete ok", "release ok"}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range what {
		if r.tally[kind] < worthwhile {
			return false
		}
	}
	return true
}

// judge has the history checked.
func (r *recorder) judge() {
	r.w.Logf("history of %d operations: %v", len(r.ops), r.tally)
	if !r.worthwhile() {
		r.w.Fatal("too little has happened")
	}
	verdict, info := porcupine.CheckOperationsVerbose(fencedLock(), r.ops, 20*time.Second)
	if verdict == porcupine.Ok {
		return
	}
	file, err := os.CreateTemp("", "pgcoord-history-*.html") // kept, to be looked at
	if err == nil {
		err = errors.Join(porcupine.Visualize(fencedLock(), info, file), file.Close())
	}
	r.w.Fatalf("the history is not that of a fenced lock: %v (see %s, %v)", verdict, file.Name(), err)
}

// readAll reads the counters beside the claims.
func (r *recorder) readAll(ctx context.Context, keys []string) {
	often := time.NewTicker(20 * time.Millisecond)
	defer often.Stop()
	for ctx.Err() == nil {
		for _, key := range keys {
			from := r.now()
			value := r.w.counted(key)
			r.add(from, r.now(), call{read, key, 0}, result{Value: value})
		}
		<-often.C
	}
}

// disturb makes n stall, lose its connections, and lose the replies to commits.
func (w *world) disturb(ctx context.Context, n *node) {
	defer n.proxy.Thaw()
	for ctx.Err() == nil {
		switch rand.N(4) {
		case 0:
			n.proxy.Freeze()
			pause(ctx, rand.N(2*historyTTL))
			n.proxy.Thaw()
		case 1:
			n.proxy.Reset()
		case 2:
			n.proxy.AtNext(faultproxy.Message.Commit, faultproxy.ForwardThenCut)
		case 3:
			n.proxy.AtNext(faultproxy.Message.Commit, faultproxy.DropAndCut)
		}
		pause(ctx, rand.N(historyTTL))
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
