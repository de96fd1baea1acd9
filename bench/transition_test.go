package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/statemachine"
)

// BenchmarkTransition moves a row of its own in each goroutine, to and fro, against
// the bare UPDATE that a service would write by hand.
func BenchmarkTransition(b *testing.B) {
	m, err := statemachine.Define(statemachine.Definition{
		Table:       "orders",
		Initial:     []statemachine.State{"A"},
		Transitions: []statemachine.Transition{{From: "A", To: "B"}, {From: "B", To: "A"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("statemachine/g=%d", goroutines), func(b *testing.B) {
			pool := newPool(b, min(goroutines, 32))
			for _, sql := range []string{
				"CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL, fencing_token bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50)",
				fmt.Sprintf("INSERT INTO orders SELECT g, 'A' FROM generate_series(0, %d) g", goroutines-1),
			} {
				if _, err := pool.Exec(context.Background(), sql); err != nil {
					b.Fatal(err)
				}
			}
			at := make([]int, goroutines) // the state of each goroutine's row
			compare(b, goroutines, "transitions", toAndFro(at, transition(m, pool)), "bare", toAndFro(at, bareUpdate(pool)))
		})
	}
}

// toAndFro moves row g out of the state that the last call left it in.
func toAndFro(at []int, move func(ctx context.Context, g int, from, to string) error) work {
	states := [2]string{"A", "B"}
	return func(ctx context.Context, g, _ int) error {
		from := at[g]
		at[g] = 1 - from
		return move(ctx, g, states[from], states[1-from])
	}
}

func transition(m *statemachine.Machine, pool *pgxpool.Pool) func(ctx context.Context, g int, from, to string) error {
	return func(ctx context.Context, g int, from, to string) error {
		_, err := m.Transition(ctx, pool, statemachine.Key(g), statemachine.State(from), statemachine.State(to), statemachine.TransitionOptions{})
		return err
	}
}

func bareUpdate(pool *pgxpool.Pool) func(ctx context.Context, g int, from, to string) error {
	return func(ctx context.Context, g int, from, to string) error {
		tag, err := pool.Exec(ctx, "UPDATE orders SET status = $3 WHERE id = $1 AND status = $2", g, from, to)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%d rows moved", tag.RowsAffected())
		}
		return err
	}
}
