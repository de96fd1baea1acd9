// Package doccheck has only tests: they hold README.md, CHANGELOG.md and docs/ to
// the code. Of each document they check:
//
//   - a block of Go stands, line by line, in a file of the module that is
//     compiled. The comment <!-- from path/to/file.go --> above it names the file;
//   - a block of SQL runs, and names of schema pgcoord exist;
//   - a block of commands names what is there: folders, make targets, flags;
//   - links lead somewhere, and identifiers, tests and checks that are named exist;
//   - the limits that README.md lists are those of the code.
package doccheck
