package statemachine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// relation is the live table.
type relation struct {
	oid         uint32
	kind        string // as in pg_class.relkind
	persistence string
	schema      string // as SQL writes it
	mayUse      bool   // the schema
	role        string // as SQL writes it
	hasPrimary  bool
	unique      bool     // the key is
	unlogged    []string // partitions, as SQL writes them
	children    []string // that inherit and are no partitions
	partitioned []string // the columns of the partition key
	nulls       string   // a list of its columns, all NULL
}

// relationSQL finds the table by its catalogue row, where a schema is named, so
// that a role that may not use the schema learns just that.
const relationSQL = `
SELECT c.oid, c.relkind::text, c.relpersistence::text, pg_catalog.quote_ident(n.nspname),
       pg_catalog.has_schema_privilege(n.oid, 'USAGE'), pg_catalog.quote_ident(current_user),
       EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
       EXISTS (SELECT FROM pg_catalog.pg_index i
                WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
                  AND NOT i.indisexclusion AND i.indpred IS NULL AND i.indexprs IS NULL
                  AND NOT EXISTS (SELECT FROM pg_catalog.generate_series(0, i.indnkeyatts - 1) k
                                    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[k]
                                   WHERE a.attname::text <> ALL ($4::text[]))),
       ARRAY(SELECT pg_catalog.format('%I.%I', pn.nspname, p.relname)
               FROM pg_catalog.pg_partition_tree(c.oid) t
               JOIN pg_catalog.pg_class p ON p.oid = t.relid
               JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
              WHERE c.relkind = 'p' AND p.relkind = 'r' AND p.relpersistence <> 'p' ORDER BY 1),
       ARRAY(SELECT pg_catalog.format('%I.%I', hn.nspname, h.relname)
               FROM pg_catalog.pg_inherits i
               JOIN pg_catalog.pg_class h ON h.oid = i.inhrelid
               JOIN pg_catalog.pg_namespace hn ON hn.oid = h.relnamespace
              WHERE c.relkind = 'r' AND i.inhparent = c.oid ORDER BY 1),
       ARRAY(SELECT a.attname::text
               FROM pg_catalog.pg_partitioned_table p
               JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (p.partattrs::int2[])
              WHERE p.partrelid = c.oid),
       coalesce((SELECT pg_catalog.string_agg(pg_catalog.format('NULL::%s AS %I', pg_catalog.format_type(
                          CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END, NULL), a.attname), ', ')
                   FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
                  WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attname::text <> $5::text), '')
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE CASE WHEN $1::text = '' THEN c.oid = pg_catalog.to_regclass($3::text)
            ELSE n.nspname = $1::text AND c.relname = $2::text END`

// relation finds the table, and reports whether there is more to look at.
func (v *inspection) relation(ctx context.Context) (usable bool, err error) {
	schema, name := "", v.table[len(v.table)-1]
	if len(v.table) == 2 {
		schema = v.table[0]
	}
	r := &v.rel
	err = v.db.QueryRow(ctx, relationSQL, schema, name, v.from(), v.key, v.state).Scan(&r.oid, &r.kind, &r.persistence,
		&r.schema, &r.mayUse, &r.role, &r.hasPrimary, &r.unique, &r.unlogged, &r.children, &r.partitioned, &r.nulls)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, v.missing(schema, name)
	}
	if err != nil {
		return false, err
	}
	if kind, other := map[string]string{
		"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index", "I": "an index", "c": "a type",
	}[r.kind]; other {
		v.fatal("", "%s is %s, whose rows cannot be locked and changed one by one; declare the table behind it", v.named(), kind)
		return false, nil
	}
	return true, nil
}

func (v *inspection) missing(schema, name string) error {
	if len(v.o.KeyTypes) == 0 {
		v.o.KeyTypes = slices.Repeat([]string{"bigint"}, len(v.key))
	}
	cure, err := v.DDL(v.o)
	hint := ""
	if strings.Contains(name, ".") {
		hint = "; inside the quotes a dot belongs to the name"
	}
	if schema == "" {
		hint += "; the name has no schema, so search_path decides"
	}
	v.fatal(cure, "there is no table %s%s", v.named(), hint)
	return err
}

func (v *inspection) privilegeFaults() {
	if !v.rel.mayUse {
		v.fatal("GRANT USAGE ON SCHEMA "+v.rel.schema+" TO "+v.rel.role+";\n",
			"role %s may not use schema %s", v.rel.role, v.rel.schema)
	}
	cure := "GRANT SELECT, UPDATE ON " + v.from() + " TO " + v.rel.role + ";\n"
	for _, name := range v.ownColumns() {
		c, found := v.columns[name]
		if found && !c.mayRead {
			v.fatal(cure, "role %s may not read column %s of %s", v.rel.role, quoted(name), v.named())
		}
		if found && !c.mayWrite && !slices.Contains(v.key, name) {
			v.fatal(cure, "role %s may not update column %s of %s", v.rel.role, quoted(name), v.named())
		}
	}
}

// storageFaults looks at what the table is made of.
func (v *inspection) storageFaults() {
	switch v.rel.persistence {
	case "u":
		if v.rel.kind == "r" { // of a partitioned table it says nothing
			v.fatal("ALTER TABLE "+v.from()+" SET LOGGED;\n", "table %s is not logged, so a crash would empty it", v.named())
		}
	case "t":
		v.fatal("", "table %s is temporary: no other session sees it", v.named())
	}
	for _, name := range v.rel.unlogged {
		v.fatal("ALTER TABLE "+name+" SET LOGGED;\n", "partition %s of %s is not logged, so a crash would empty it", name, v.named())
	}
	for _, child := range v.rel.children {
		v.fatal("ALTER TABLE "+child+" NO INHERIT "+v.from()+";\n",
			"table %s inherits from %s, so a key can be in both, whatever is unique in each", child, v.named())
	}
	for _, name := range v.rel.partitioned {
		if name == v.state || name == v.token {
			v.fatal("", "table %s is partitioned by column %s, which transitions change: they would move rows from partition to partition, "+
				"which fails where two do it at once; partition by the key", v.named(), quoted(name))
		}
	}
}

func (v *inspection) uniquenessFaults() {
	if v.rel.unique {
		return
	}
	for _, name := range v.rel.partitioned {
		if !slices.Contains(v.key, name) {
			v.fatal("", "table %s is partitioned by column %s, which is not in the key (%s): no unique index can cover the key alone",
				v.named(), quoted(name), columns(v.key))
			return
		}
	}
	cure := "ALTER TABLE " + v.from() + " ADD PRIMARY KEY (" + columns(v.key) + ");\n"
	if v.rel.hasPrimary {
		cure = "CREATE UNIQUE INDEX " + quoted(v.keyName()) + " ON " + v.from() + " (" + columns(v.key) + ");\n"
	}
	v.fatal(cure, "no primary key or unique index of table %s that is immediate, whole and valid covers the key (%s), so a key could have two rows",
		v.named(), columns(v.key))
}
