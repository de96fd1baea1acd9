package doccheck

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// library is what a package exports, and its examples.
type library struct {
	names    []string // Do, Lease, Lease.Renew, Options.TTL, …
	shown    []string // those that owe an example
	examples []string // names of those that run, without Example
}

// Everything that can be called has an example that runs.
func TestEveryVerbHasAnExample(t *testing.T) {
	for name, folder := range folders {
		p := read(t, folder)
		for _, owed := range p.shown {
			want := strings.ReplaceAll(owed, ".", "_")
			if !slices.ContainsFunc(p.examples, func(e string) bool { return e == want || strings.HasPrefix(e, want+"_") }) {
				t.Errorf("%s.%s has no example with an output", name, owed)
			}
		}
	}
}

func read(t *testing.T, folder string) library {
	t.Helper()
	fset := token.NewFileSet()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var code []*ast.File
	var p library
	for _, name := range files {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			code = append(code, file)
			continue
		}
		for _, e := range doc.Examples(file) {
			if e.Output != "" || e.EmptyOutput {
				p.examples = append(p.examples, e.Name)
			}
		}
	}
	for _, file := range code {
		for _, d := range file.Decls {
			p.add(d)
		}
	}
	return p
}

func (p *library) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d) + "." + name
		}
		if !ast.IsExported(name) || !d.Name.IsExported() {
			return
		}
		p.names = append(p.names, name)
		switch d.Name.Name {
		case "Error", "Is", "String": // called by others
		default:
			p.shown = append(p.shown, name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					p.names = append(p.names, n.Name)
				}
			case *ast.TypeSpec:
				p.addType(s)
			}
		}
	}
}

func (p *library) addType(s *ast.TypeSpec) {
	p.names = append(p.names, s.Name.Name)
	var members *ast.FieldList
	switch s := s.Type.(type) {
	case *ast.StructType:
		members = s.Fields
	case *ast.InterfaceType:
		members = s.Methods
	default:
		return
	}
	for _, m := range members.List {
		for _, n := range m.Names {
			p.names = append(p.names, s.Name.Name+"."+n.Name)
		}
	}
}

func receiver(d *ast.FuncDecl) string {
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
