package statemachine

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// object returns the name of what the DDL makes for a machine: of words that tell
// the reader what it is. Where they would be too long, or could be read as those
// of another machine's object, a hash tells them apart.
func (m *Machine) object(words ...string) string {
	words = append([]string{m.table[len(m.table)-1], m.state}, words...)
	name := strings.Join(words, "_")
	clear := len(name) <= maxIdentifier
	for _, word := range words {
		clear = clear && plainWord.MatchString(word)
	}
	if clear {
		return name
	}
	mark := "_" + hash(words...)
	if most := maxIdentifier - len(mark); len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	return name + mark
}

func hash(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:4])
}

func (m *Machine) checkName() string            { return m.object("states") }
func (m *Machine) indexName(ready State) string { return m.object("ready", string(ready)) }
func (m *Machine) keyName() string              { return m.object("key") }
func (m *Machine) birthTrigger() string         { return m.object("birth") }
func (m *Machine) edgeTrigger() string          { return m.object("edge") }
func (m *Machine) guardFunction() string        { return m.object("guard") }
func (m *Machine) newWorkTrigger() string       { return m.object("newwork", hash(m.name)) }
func (m *Machine) workTrigger() string          { return m.object("work", hash(m.name)) }
func (m *Machine) wakeFunction() string         { return m.object("wake", hash(m.name)) }

// beside returns a name in the schema of the table, as SQL writes it.
func (m *Machine) beside(name string) string {
	return append(m.table[:len(m.table)-1:len(m.table)-1], name).Sanitize()
}

// literal returns text as SQL writes it, under any standard_conforming_strings.
func literal(text string) string {
	text = strings.ReplaceAll(text, "'", "''")
	if strings.Contains(text, `\`) {
		return `E'` + strings.ReplaceAll(text, `\`, `\\`) + `'`
	}
	return "'" + text + "'"
}

// literals returns states as SQL writes a list of them.
func literals(states []State) string {
	out := make([]string, len(states))
	for i, s := range states {
		out[i] = literal(string(s))
	}
	return strings.Join(out, ", ")
}

// texts returns states as a parameter that every query mode of pgx takes.
func texts(states []State) []string {
	out := make([]string, len(states))
	for i, s := range states {
		out[i] = string(s)
	}
	return out
}

// dollarQuoted returns body as SQL writes the text of a function.
func dollarQuoted(body string) string {
	tag := "$body$"
	for strings.Contains(body, tag) {
		tag = "$_" + tag[1:]
	}
	return tag + body + tag
}

// columns returns names as SQL writes a list of them.
func columns(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = pgx.Identifier{name}.Sanitize()
	}
	return strings.Join(out, ", ")
}
