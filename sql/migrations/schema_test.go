package migrations_test

import (
	"testing"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// What the library refuses to grant under must not come from the files.
func TestSequencesGrowOverAllSessions(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.DSN(t))
	all := column[string](t, pool, "SELECT sequencename FROM pg_sequences WHERE schemaname = 'pgcoord'")
	if len(all) == 0 {
		t.Fatal("no sequences")
	}
	for _, name := range column[string](t, pool, `SELECT sequencename FROM pg_sequences
		WHERE schemaname = 'pgcoord' AND (cache_size <> 1 OR cycle OR increment_by <> 1 OR data_type <> 'bigint'::regtype)`) {
		t.Errorf("sequence %s is not bigint, CACHE 1, NO CYCLE, INCREMENT 1", name)
	}
}

func TestFunctionsPinTheirSearchPath(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.DSN(t))
	for _, name := range column[string](t, pool, `SELECT proname FROM pg_proc
		WHERE pronamespace = 'pgcoord'::regnamespace
		  AND (prosecdef OR NOT coalesce(proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp'])`) {
		t.Errorf("function %s: SECURITY DEFINER, or no pinned search_path", name)
	}
}

// Keys are compared byte by byte.
func TestKeysAreExact(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.DSN(t))
	for _, name := range column[string](t, pool, `
		SELECT c.relname || '.' || a.attname
		  FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
		  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
		 WHERE i.indisunique AND c.relnamespace = 'pgcoord'::regnamespace
		   AND a.attcollation <> 0 AND a.attcollation <> '"C"'::regcollation`) {
		t.Errorf("column %s is compared by a locale", name)
	}
	for _, name := range column[string](t, pool, `SELECT conname FROM pg_constraint
		WHERE connamespace = 'pgcoord'::regnamespace AND contype IN ('p', 'u') AND condeferrable`) {
		t.Errorf("constraint %s is deferrable", name)
	}
}
