package statemachine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/statemachine"
)

// TestTables: tables, columns, keys and states of every kind and name.
func TestTables(t *testing.T) {
	t.Parallel()
	const uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	tests := []struct {
		name   string
		make   string // with the row of key in A
		d      statemachine.Definition
		key    string
		others []string // keys of no row, which are well formed
		bad    []string // keys that name nothing
	}{
		{
			name:   "hostile names",
			make:   `CREATE SCHEMA shop; CREATE TABLE shop."Order ""Items""" ("the ""key""" text PRIMARY KEY, "was" text, "select" text NOT NULL, "token" bigint NOT NULL DEFAULT 0); INSERT INTO shop."Order ""Items""" VALUES ('x''); --', '', 'A')`,
			d:      statemachine.Definition{Table: `shop."Order ""Items"""`, Key: []string{`the "key"`}, StateColumn: "select", TokenColumn: "token"},
			key:    "x'); --",
			others: []string{"X'); --", "x'); -- ", "x'); --%"},
		},
		{
			name:   "bigint",
			make:   "CREATE TABLE o (id bigint PRIMARY KEY, status text NOT NULL, fencing_token bigint NOT NULL DEFAULT 0); INSERT INTO o VALUES (-7, 'A')",
			d:      statemachine.Definition{Table: "o"},
			key:    "-7",
			others: []string{"7", "9223372036854775807"},
			bad:    []string{"007", "+7", " 7", "7 ", "7.0", "-0", "0x7", "9223372036854775808", "seven"},
		},
		{
			name:   "smallint, in a domain",
			make:   "CREATE DOMAIN number AS smallint; CREATE TABLE o (id number PRIMARY KEY, status text NOT NULL, fencing_token bigint NOT NULL DEFAULT 0); INSERT INTO o VALUES (7, 'A')",
			d:      statemachine.Definition{Table: "o"},
			key:    "7",
			others: []string{"8"},
			bad:    []string{"32768"},
		},
		{
			name:   "uuid, and an enum",
			make:   `CREATE SCHEMA "My Types"; CREATE TYPE "My Types"."The State" AS ENUM ('A', 'B', 'C'); CREATE TABLE o (id uuid PRIMARY KEY, status "My Types"."The State" NOT NULL, fencing_token bigint NOT NULL DEFAULT 0); INSERT INTO o VALUES ('` + uuid + `', 'A')`,
			d:      statemachine.Definition{Table: "o"},
			key:    uuid,
			others: []string{strings.Replace(uuid, "0f", "1f", 1)},
			bad:    []string{strings.ToUpper(uuid), strings.ReplaceAll(uuid, "-", ""), "{" + uuid + "}"},
		},
		{
			name:   "varchar",
			make:   "CREATE TABLE o (id varchar(20) PRIMARY KEY, status varchar(1) NOT NULL, fencing_token bigint NOT NULL DEFAULT 0); INSERT INTO o VALUES ('ä b', 'A')",
			d:      statemachine.Definition{Table: "o"},
			key:    "ä b",
			others: []string{"ä b ", "Ä b", "a\u0308 b", strings.Repeat("x", 512)},
			bad:    []string{"", "\xff", strings.Repeat("x", 513)},
		},
		{
			name: "domains over text",
			make: "CREATE DOMAIN mood AS varchar(3) CHECK (VALUE IN ('A', 'B', 'C')); CREATE DOMAIN name AS text; CREATE TABLE o (id public.name PRIMARY KEY, status mood NOT NULL, fencing_token bigint NOT NULL DEFAULT 0); INSERT INTO o VALUES ('1', 'A')",
			d:    statemachine.Definition{Table: "o"},
			key:  "1",
		},
		{
			name:   "composite",
			make:   "CREATE TABLE o (tenant text, nr int, of uuid, status text NOT NULL, fencing_token bigint NOT NULL DEFAULT 0, PRIMARY KEY (nr, tenant, of)); INSERT INTO o VALUES ('a\"b\\c', 7, '" + uuid + "', 'A')",
			d:      statemachine.Definition{Table: "o", Key: []string{"tenant", "nr", "of"}},
			key:    statemachine.Key(`a"b\c`, 7, uuid),
			others: []string{statemachine.Key(`a"b\c`, 8, uuid), statemachine.Key("", 7, uuid)},
			bad:    []string{"7", `["a"]`, statemachine.Key("a", "07", uuid), ` ["a","7","` + uuid + `"]`, `["a",7,"` + uuid + `"]`},
		},
		{
			name: "without a token column, and without a unique key",
			make: "CREATE TABLE o (id text, status text NOT NULL); INSERT INTO o VALUES ('k', 'A')",
			d:    statemachine.Definition{Table: "o", TokenColumn: "-"},
			key:  "k",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, pool := within(t, 30*time.Second), newPool(t)
			for _, sql := range strings.Split(strings.ReplaceAll(tt.make, "; --", "\x00"), ";") {
				exec(t, pool, strings.ReplaceAll(sql, "\x00", "; --"))
			}
			tt.d.Initial = []statemachine.State{"A"}
			tt.d.Transitions = []statemachine.Transition{{From: "A", To: "B"}, {From: "B", To: "A"}, {From: "B", To: "C"}}
			m := define(t, tt.d)
			for _, key := range tt.others {
				if _, err := m.Transition(ctx, pool, key, "A", "B", plain); !errors.Is(err, pgcoord.ErrNotFound) {
					t.Errorf("%q: %v", key, err)
				}
			}
			for _, key := range tt.bad {
				if _, err := m.Transition(ctx, pool, key, "A", "B", plain); !errors.Is(err, pgcoord.ErrInvalidKey) {
					t.Errorf("%q: %v", key, err)
				}
			}
			tour(t, pool, m, tt.key, tt.d.TokenColumn != "-")
		})
	}
}

// tour moves the row of key to and fro by every form of the statement.
func tour(t *testing.T, pool *pgxpool.Pool, m *statemachine.Machine, key string, tokens bool) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	options := []statemachine.TransitionOptions{plain, {Record: true}, {NoWait: true}, {NoWait: true, Record: true}}
	if tokens {
		options = append(options, statemachine.TransitionOptions{RaiseToken: true}, statemachine.TransitionOptions{RaiseToken: true, NoWait: true, Record: true})
	}
	var token int64
	recorded := 0
	for i, o := range options {
		if tokens {
			o.Token = token
		}
		there, err := m.Transition(pgcoord.WithOperation(ctx, fmt.Sprint(i)), pool, key, "A", "B", o)
		if err != nil || there.Key != key || tokens && (there.Token > token) != o.RaiseToken {
			t.Errorf("%+v: %+v, %v", o, there, err)
		}
		token = there.Token
		_, err = m.Transition(ctx, pool, key, "A", "B", o)
		refused(t, err, map[bool]error{true: pgcoord.ErrLost, false: pgcoord.ErrConflict}[o.RaiseToken && o.Token != 0], "B")
		o.Token, o.RaiseToken = token, false
		if back, err := m.TransitionAny(ctx, pool, key, []statemachine.State{"B"}, "A", o); err != nil || back.From != "B" || back.Token != token {
			t.Errorf("back by %+v: %+v, %v", o, back, err)
		}
		if o.Record {
			recorded += 2
		}
	}
	if events, err := m.History(ctx, pool, key); err != nil || len(events) != recorded {
		t.Errorf("%d transitions are recorded, want %d: %v", len(events), recorded, err)
	}
}
