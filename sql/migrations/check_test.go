package migrations_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// row is a row as SQL expressions by column.
type row map[string]string

// goodRows has one row that each table takes; the bad ones differ from it.
var goodRows = map[string]row{
	"cluster": {"only_row": "true", "epoch": "0"},
	"operations": {
		"domain": "'task_locks'", "key": "'k'", "operation_id": "'op'", "token": "1", "applied": "true",
	},
	"task_locks": {
		"task_name": "'k'", "token": "5", "claim_id": "'c'", "holder": "'h'", "channel": "'ch'",
		"held": "true", "metadata": "'{}'", "done_token": "4",
	},
	"task_waiters": {
		"task_name": "'k'", "slot_id": "'s'", "channel": "'ch'", "holder": "'h'", "deadline": "'infinity'",
	},
	"attempts": {
		"machine": "'m'", "key": "'k'", "token": "1", "claim_id": "'c'", "holder": "'h'", "channel": "'ch'",
		"attempt": "1", "expires_at": "clock_timestamp()",
	},
	"transitions": {
		"machine": "'m'", "key": "'k'", "from_state": "'A'", "to_state": "'B'", "metadata": "'{}'",
	},
	"machine_waiters": {
		"machine": "'m'", "key": "''", "channel": "'ch'", "deadline": "'infinity'",
	},
}

// checks has what each CHECK refuses, and the edge that it still takes.
var checks = []struct {
	constraint string
	bad, edge  []row
}{
	{"cluster_only_row_check", []row{{"only_row": "false"}}, nil},
	{"cluster_epoch_check", []row{{"epoch": "-1"}, {"epoch": "4097"}}, []row{{"epoch": "4096"}}},

	{"operations_domain_check", []row{{"domain": "''"}}, nil},
	{
		"operations_key_check",
		[]row{{"key": "''"}, {"key": "repeat('k', 513)"}, {"key": "repeat('é', 257)"}},
		[]row{{"key": "repeat('k', 512)"}, {"key": "repeat('é', 256)"}},
	},
	{
		"operations_operation_id_check",
		[]row{{"operation_id": "''"}, {"operation_id": "repeat('o', 129)"}},
		[]row{{"operation_id": "repeat('o', 128)"}},
	},
	{"operations_token_check", []row{{"token": "-1"}}, []row{{"token": "0"}}},

	{
		"task_locks_task_name_check",
		[]row{{"task_name": "''"}, {"task_name": "repeat('k', 513)"}, {"task_name": "repeat('é', 257)"}},
		[]row{{"task_name": "repeat('k', 512)"}, {"task_name": "repeat('é', 256)"}, {"task_name": "' '"}},
	},
	{
		"task_locks_token_check",
		[]row{{"token": "-1"}},
		[]row{{"token": "0", "done_token": "0", "held": "false"}},
	},
	{"task_locks_claim_id_check", []row{{"claim_id": "repeat('c', 161)"}}, []row{{"claim_id": "repeat('c', 160)"}}},
	{"task_locks_holder_check", []row{{"holder": "repeat('h', 513)"}}, []row{{"holder": "repeat('h', 512)"}}},
	{"task_locks_channel_check", []row{{"channel": "repeat('c', 64)"}}, []row{{"channel": "repeat('c', 63)"}}},
	{"task_locks_check", []row{{"done_token": "6"}, {"done_token": "-1"}}, []row{{"done_token": "5"}, {"done_token": "0"}}},
	{"task_locks_metadata_check", []row{{"metadata": "'[]'"}, {"metadata": "'null'"}}, nil},
	{"task_locks_check1", []row{{"token": "0", "done_token": "0"}}, nil},
	{"task_locks_check2", []row{{"done_at": "clock_timestamp()"}}, []row{{"done_at": "clock_timestamp()", "held": "false"}}},

	{"task_waiters_task_name_check", []row{{"task_name": "''"}, {"task_name": "repeat('x', 513)"}}, []row{{"task_name": "repeat('x', 512)"}}},
	{"task_waiters_slot_id_check", []row{{"slot_id": "''"}, {"slot_id": "repeat('x', 161)"}}, []row{{"slot_id": "repeat('x', 160)"}}},
	{"task_waiters_channel_check", []row{{"channel": "''"}, {"channel": "repeat('x', 64)"}}, []row{{"channel": "repeat('x', 63)"}}},
	{"task_waiters_holder_check", []row{{"holder": "repeat('x', 513)"}}, []row{{"holder": "repeat('x', 512)"}}},

	{"attempts_machine_check", []row{{"machine": "''"}, {"machine": "repeat('x', 129)"}}, []row{{"machine": "repeat('x', 128)"}}},
	{"attempts_key_check", []row{{"key": "''"}, {"key": "repeat('x', 513)"}}, []row{{"key": "repeat('x', 512)"}}},
	{"attempts_token_check", []row{{"token": "0"}, {"token": "-1"}}, nil},
	{"attempts_claim_id_check", []row{{"claim_id": "''"}, {"claim_id": "repeat('x', 161)"}}, []row{{"claim_id": "repeat('x', 160)"}}},
	{"attempts_holder_check", []row{{"holder": "repeat('x', 513)"}}, []row{{"holder": "repeat('x', 512)"}}},
	{"attempts_channel_check", []row{{"channel": "repeat('x', 64)"}}, []row{{"channel": "repeat('x', 63)"}}},
	{"attempts_attempt_check", []row{{"attempt": "0"}}, nil},
	{
		"attempts_outcome_check",
		[]row{{"outcome": "'lost'", "ended_at": "clock_timestamp()"}},
		[]row{{"outcome": "'lease expired'", "ended_at": "clock_timestamp()"}},
	},
	{"attempts_check", []row{{"outcome": "'done'"}, {"ended_at": "clock_timestamp()"}}, nil},

	{"transitions_machine_check", []row{{"machine": "''"}, {"machine": "repeat('x', 129)"}}, []row{{"machine": "repeat('x', 128)"}}},
	{"transitions_key_check", []row{{"key": "''"}, {"key": "repeat('x', 513)"}}, []row{{"key": "repeat('x', 512)"}}},
	{"transitions_metadata_check", []row{{"metadata": "'[]'"}}, nil},

	{"machine_waiters_machine_check", []row{{"machine": "''"}, {"machine": "repeat('x', 129)"}}, []row{{"machine": "repeat('x', 128)"}}},
	{"machine_waiters_key_check", []row{{"key": "repeat('x', 513)"}}, []row{{"key": "repeat('x', 512)"}}},
	{"machine_waiters_channel_check", []row{{"channel": "''"}, {"channel": "repeat('x', 64)"}}, []row{{"channel": "repeat('x', 63)"}}},
}

// tableOf is the table with the longest name that the constraint's begins with.
func tableOf(constraint string) string {
	best := ""
	for table := range goodRows {
		if strings.HasPrefix(constraint, table+"_") && len(table) > len(best) {
			best = table
		}
	}
	return best
}

// insert tries the good row with changes, and undoes it. With only, no other
// CHECK of the table is there to refuse it.
func insert(t *testing.T, conn *pgx.Conn, table string, changes row, only string) error {
	t.Helper()
	whole := maps.Clone(goodRows[table])
	maps.Copy(whole, changes)
	names := slices.Sorted(maps.Keys(whole))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = whole[name]
	}
	tx, err := conn.Begin(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}()
	exec(t, tx, "DELETE FROM pgcoord."+table)
	if only != "" {
		for _, other := range column[string](t, tx, `SELECT conname FROM pg_constraint
			WHERE conrelid = ('pgcoord.' || $1)::regclass AND contype = 'c' AND conname <> $2`, table, only) {
			exec(t, tx, "ALTER TABLE pgcoord."+table+" DROP CONSTRAINT "+other)
		}
	}
	_, err = tx.Exec(bounded(t), fmt.Sprintf("INSERT INTO pgcoord.%s (%s) VALUES (%s)",
		table, strings.Join(names, ", "), strings.Join(values, ", ")))
	return err
}

func TestChecksRefuseBadRows(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(bounded(t), pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(bounded(t))
	for table := range goodRows {
		if err := insert(t, conn, table, nil, ""); err != nil {
			t.Fatalf("%s: the good row: %v", table, err)
		}
	}
	for _, check := range checks {
		table := tableOf(check.constraint)
		for _, bad := range check.bad {
			var pgErr *pgconn.PgError
			err := insert(t, conn, table, bad, check.constraint)
			if !errors.As(err, &pgErr) || pgErr.Code != "23514" || pgErr.ConstraintName != check.constraint {
				t.Errorf("%s %v: %v, want a refusal by %s", table, bad, err, check.constraint)
			}
		}
		for _, edge := range check.edge {
			if err := insert(t, conn, table, edge, ""); err != nil {
				t.Errorf("%s %v: %v, want it taken", table, edge, err)
			}
		}
	}
}

// A CHECK that is added to the schema must be added here.
func TestEveryCheckHasItsBadRow(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.DSN(t))
	inSchema := column[string](t, pool, `SELECT conname FROM pg_constraint
		WHERE connamespace = 'pgcoord'::regnamespace AND contype = 'c' ORDER BY 1`)
	var here []string
	for _, check := range checks {
		here = append(here, check.constraint)
		if len(check.bad) == 0 {
			t.Errorf("%s has no bad row", check.constraint)
		}
	}
	slices.Sort(here)
	if !slices.Equal(inSchema, here) {
		t.Errorf("checks in the schema:\n%v\nchecks with a bad row here:\n%v", inSchema, here)
	}
	tables := column[string](t, pool, "SELECT tablename FROM pg_tables WHERE schemaname = 'pgcoord' ORDER BY 1")
	if known := slices.Sorted(maps.Keys(goodRows)); !slices.Equal(tables, known) {
		t.Errorf("tables in the schema: %v; with a good row here: %v", tables, known)
	}
}
