package statemachine

import "context"

// Rows of one key can be many only where no unique index forbids it: valid, of
// immediate effect, over all rows, on columns of the key alone. Tables that inherit
// from this one have rows of their own.
const uniqueSQL = `
SELECT EXISTS (
  SELECT FROM pg_catalog.pg_index i
   WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
     AND NOT EXISTS (
       SELECT FROM pg_catalog.generate_series(0, i.indnkeyatts - 1) n
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[n] AND a.attnum <> 0
        WHERE a.attname::text IS NULL OR a.attname::text <> ALL ($2::text[])))
   AND (c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid))
  FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1::text)`

// keyIsUnique reports whether the live table lets a key have one row alone.
func (m *Machine) keyIsUnique(ctx context.Context, db DB) (unique bool, err error) {
	err = db.QueryRow(ctx, uniqueSQL, m.from(), m.key).Scan(&unique)
	return unique, err
}
