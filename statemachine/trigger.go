package statemachine

import (
	"fmt"
	"strings"
)

// exactly returns a column of a trigger's row as text that is compared byte by byte.
func exactly(row, column string) string {
	return fmt.Sprintf(`%s.%s::text COLLATE "C"`, row, quoted(column))
}

// guardBody is the function by which the database itself refuses what the machine
// does not declare. It runs after the row was written, when no other trigger can
// change it any more.
func (m *Machine) guardBody() string {
	return fmt.Sprintf(`
DECLARE
    was   text COLLATE "C" := OLD.%[1]s;
    is_in text COLLATE "C" := NEW.%[1]s;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF (is_in IN (%[2]s)) IS NOT TRUE THEN
            RAISE EXCEPTION 'a row of %% is not born in state %%', TG_TABLE_NAME, pg_catalog.quote_nullable(is_in)
                USING ERRCODE = 'PGC03', DETAIL = 'key ' || coalesce(%[3]s, 'NULL'),
                      SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, COLUMN = %[4]s;
        END IF;
    ELSIF was IS DISTINCT FROM is_in AND ((was, is_in) IN (%[5]s)) IS NOT TRUE THEN
        RAISE EXCEPTION '%% does not go from state %% to %%', TG_TABLE_NAME, pg_catalog.quote_nullable(was), pg_catalog.quote_nullable(is_in)
            USING ERRCODE = 'PGC03', DETAIL = 'key ' || coalesce(%[3]s, 'NULL'),
                  SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, COLUMN = %[4]s;
    END IF;%[6]s
    RETURN NULL;
END
`, quoted(m.state), literals(m.initial), m.keySQL("NEW"), literal(m.state), m.edgeList(), m.tokenRule())
}

// edgeList returns the edges as pairs.
func (m *Machine) edgeList() string {
	var pairs []string
	for _, from := range m.states {
		for _, to := range m.edges[from] {
			pairs = append(pairs, "("+literals([]State{from, to})+")")
		}
	}
	return strings.Join(pairs, ", ")
}

func (m *Machine) tokenRule() string {
	if m.token == "" {
		return ""
	}
	return fmt.Sprintf(`
    IF NEW.%[1]s IS NULL OR NEW.%[1]s < OLD.%[1]s THEN
        RAISE EXCEPTION 'the fencing token of a row of %% goes from %% to %%: it never falls', TG_TABLE_NAME,
                pg_catalog.quote_nullable(OLD.%[1]s), pg_catalog.quote_nullable(NEW.%[1]s)
            USING ERRCODE = 'PGC03', DETAIL = 'key ' || coalesce(%[2]s, 'NULL'),
                  SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, COLUMN = %[3]s;
    END IF;`, quoted(m.token), m.keySQL("NEW"), literal(m.token))
}

// changed is when the guard looks at an update: others cost no call.
func (m *Machine) changed() string {
	when := exactly("OLD", m.state) + " IS DISTINCT FROM " + exactly("NEW", m.state)
	if m.token != "" {
		when += fmt.Sprintf(" OR OLD.%[1]s IS DISTINCT FROM NEW.%[1]s", quoted(m.token))
	}
	return when
}

func (m *Machine) guardDDL() string {
	return fmt.Sprintf(`-- The database refuses what is not declared, from every client.
CREATE OR REPLACE FUNCTION %[1]s() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS %[2]s;
CREATE OR REPLACE TRIGGER %[3]s AFTER INSERT ON %[5]s
    FOR EACH ROW EXECUTE FUNCTION %[1]s();
CREATE OR REPLACE TRIGGER %[4]s AFTER UPDATE ON %[5]s
    FOR EACH ROW WHEN (%[6]s)
    EXECUTE FUNCTION %[1]s();
ALTER TABLE %[5]s ENABLE ALWAYS TRIGGER %[3]s;
ALTER TABLE %[5]s ENABLE ALWAYS TRIGGER %[4]s;
`, m.beside(m.guardFunction()), dollarQuoted(m.guardBody()), quoted(m.birthTrigger()), quoted(m.edgeTrigger()), m.from(), m.changed())
}

// wakeBody is the function that tells waiters of new work. A statement of several
// rows tells as many waiters. It never makes the writer fail: a wake-up is a
// courtesy, and the writer may lack privileges on pgcoord.
func (m *Machine) wakeBody(claimable []State) string {
	return fmt.Sprintf(`
DECLARE
    ready bigint := 1;
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        SELECT pg_catalog.count(*) INTO ready
          FROM (SELECT FROM born WHERE %s IN (%s) LIMIT 1000) claimable;
    END IF;
    IF ready > 0 THEN
        PERFORM pgcoord.wake_machine(%s, '', ready::int);
    END IF;
    RETURN NULL;
EXCEPTION WHEN insufficient_privilege OR undefined_function OR undefined_table OR invalid_schema_name THEN
    RETURN NULL;
END
`, exactly("born", m.state), literals(claimable), literal(m.name))
}

func (m *Machine) wakeDDL(claimable []State) string {
	return fmt.Sprintf(`-- Those who wait for work are told of it.
CREATE OR REPLACE FUNCTION %[1]s() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS %[2]s;
CREATE OR REPLACE TRIGGER %[3]s AFTER INSERT ON %[5]s
    REFERENCING NEW TABLE AS born FOR EACH STATEMENT EXECUTE FUNCTION %[1]s();
CREATE OR REPLACE TRIGGER %[4]s AFTER UPDATE ON %[5]s
    FOR EACH ROW WHEN (%[6]s IS DISTINCT FROM %[7]s AND %[7]s IN (%[8]s))
    EXECUTE FUNCTION %[1]s();
`, m.beside(m.wakeFunction()), dollarQuoted(m.wakeBody(claimable)), quoted(m.newWorkTrigger()), quoted(m.workTrigger()),
		m.from(), exactly("OLD", m.state), exactly("NEW", m.state), literals(claimable))
}

// dropTriggers returns the statements that take the triggers away, not their
// functions.
func (m *Machine) dropTriggers() string {
	var b strings.Builder
	for _, name := range []string{m.birthTrigger(), m.edgeTrigger(), m.newWorkTrigger(), m.workTrigger()} {
		fmt.Fprintf(&b, "DROP TRIGGER IF EXISTS %s ON %s;\n", quoted(name), m.from())
	}
	return b.String()
}
