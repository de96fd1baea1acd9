package doccheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const root = "../.."

// document is a Markdown file.
type document struct {
	name   string // from the module's root
	text   string
	blocks []block
	prose  string // without the blocks
}

// block is fenced text.
type block struct {
	language string
	section  string // the heading above it
	from     string // of the comment above it
	text     string
	line     int // of its first line
}

var fromComment = regexp.MustCompile(`^<!-- from (\S+) -->$`)

// documents returns those that the checks are about.
func documents(t *testing.T) []document {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md"))
	var all []document
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parse(t, filepath.ToSlash(rel), string(text)))
	}
	return all
}

func parse(t *testing.T, name, text string) document {
	t.Helper()
	d := document{name: name, text: text}
	var open *block
	var prose, inside []string
	from, section := "", ""
	for i, line := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{language: strings.TrimPrefix(line, "```"), section: section, from: from, line: i + 2}
			inside = nil
		case fence:
			open.text = strings.Join(inside, "\n")
			d.blocks = append(d.blocks, *open)
			open = nil
		case open != nil:
			inside = append(inside, line)
		default:
			prose = append(prose, line)
			if strings.HasPrefix(line, "#") {
				section = strings.TrimLeft(line, "# ")
			}
		}
		if m := fromComment.FindStringSubmatch(line); m != nil {
			from = m[1]
		} else if line != "" {
			from = ""
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block has no end", name, open.line)
	}
	d.prose = strings.Join(prose, "\n")
	return d
}

// eachBlock runs check for all blocks of the languages.
func eachBlock(t *testing.T, check func(t *testing.T, d document, b block), languages ...string) {
	t.Helper()
	n := 0
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			for _, language := range languages {
				if b.language == language {
					n++
					check(t, d, b)
				}
			}
		}
	}
	if n == 0 {
		t.Errorf("no document has a block of %v", languages)
	}
}

// section returns the text of the blocks of SQL under a heading of docs/operations.md.
func section(t *testing.T, heading string) (sql []string) {
	t.Helper()
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if d.name == "docs/operations.md" && b.section == heading && b.language == "sql" {
				sql = append(sql, b.text)
			}
		}
	}
	if len(sql) == 0 {
		t.Fatalf("docs/operations.md has no SQL under %q", heading)
	}
	return sql
}

// Every block is of a kind that is checked.
func TestLanguages(t *testing.T) {
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			switch b.language {
			case "go", "sql", "sh":
			default:
				t.Errorf("%s:%d: a block of %q, which nothing checks", d.name, b.line, b.language)
			}
		}
	}
}
