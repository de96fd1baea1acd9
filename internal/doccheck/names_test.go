package doccheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	identifier = regexp.MustCompile(`\b(pgcoord|uniquelock|migrations)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	testName   = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	checkName  = regexp.MustCompile("`(S\\d+/[a-z_]+)`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// folders of the packages that documents name.
var folders = map[string]string{"pgcoord": ".", "uniquelock": "uniquelock", "migrations": "sql/migrations"}

func TestIdentifiers(t *testing.T) {
	exported := map[string][]string{}
	for name, folder := range folders {
		exported[name] = read(t, folder).names
	}
	for _, d := range documents(t) {
		for _, m := range identifier.FindAllStringSubmatch(d.prose, -1) {
			name := m[2]
			if m[3] != "" {
				name += "." + m[3]
			}
			if !slices.Contains(exported[m[1]], name) {
				t.Errorf("%s: %s has no %s", d.name, m[1], name)
			}
		}
	}
}

// sources returns the text of the module's Go files below folder.
func sources(t *testing.T, folder, suffix string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestNamesOfTests(t *testing.T) {
	code := sources(t, ".", "_test.go")
	for _, d := range documents(t) {
		for _, m := range testName.FindAllStringSubmatch(d.prose, -1) {
			if !strings.Contains(code, "\nfunc "+m[1]+"(t *testing.T)") {
				t.Errorf("%s: there is no %s", d.name, m[1])
			}
		}
	}
}

// Each check of the contract that a document names is in the suite, and
// docs/contract.md names all of them.
func TestNamesOfChecks(t *testing.T) {
	suite := map[string]bool{}
	for _, m := range regexp.MustCompile(`clause: "(S\d+)", name: "(\w+)"`).FindAllStringSubmatch(sources(t, "internal/conformance", ".go"), -1) {
		suite[m[1]+"/"+m[2]] = true
	}
	told := map[string]bool{}
	for _, d := range documents(t) {
		for _, m := range checkName.FindAllStringSubmatch(d.prose, -1) {
			if !suite[m[1]] {
				t.Errorf("%s: the suite has no check %s", d.name, m[1])
			}
			told[m[1]] = told[m[1]] || d.name == "docs/contract.md"
		}
	}
	for name := range suite {
		if !told[name] {
			t.Errorf("docs/contract.md does not name the check %s", name)
		}
	}
}

func TestLinks(t *testing.T) {
	all := documents(t)
	headings := map[string]string{}
	for _, d := range all {
		for _, line := range strings.Split(d.prose, "\n") {
			if strings.HasPrefix(line, "#") {
				headings[d.name] += "#" + slug(strings.TrimLeft(line, "# ")) + "\n"
			}
		}
	}
	for _, d := range all {
		for _, m := range link.FindAllStringSubmatch(d.prose, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target, anchor, anchored := strings.Cut(m[1], "#")
			name := d.name
			if target != "" {
				name = filepath.ToSlash(filepath.Join(filepath.Dir(d.name), target))
				wantFile(t, name)
			}
			if anchored && !strings.Contains(headings[name], "#"+anchor+"\n") {
				t.Errorf("%s: %s has no heading #%s", d.name, name, anchor)
			}
		}
	}
}

var notInSlug = regexp.MustCompile(`[^a-z0-9 _-]`)

// slug is the anchor that a heading gets.
func slug(heading string) string {
	return strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
