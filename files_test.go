package watermillsqs_test

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The files of the package depend on each other as the table in DESIGN.md says, no
// more and no less, and without a cycle.
func TestFileGraph(t *testing.T) {
	got := fileGraph(t)
	want := documentedGraph(t)
	for _, file := range slices.Sorted(maps.Keys(got)) {
		require.Contains(t, want, file, "DESIGN.md's file map lacks a file")
		require.Equal(t, want[file], got[file], "what %s uses (DESIGN.md first, then the code)", file)
	}
	require.Len(t, want, len(got), "DESIGN.md's file map has a file that does not exist")

	state := map[string]int{} // 1 being visited, 2 done
	var visit func(path []string, file string)
	visit = func(path []string, file string) {
		require.NotEqual(t, 1, state[file], "cycle: %s → %s", strings.Join(path, " → "), file)
		if state[file] == 2 {
			return
		}
		state[file] = 1
		for _, used := range got[file] {
			visit(append(path, file), used)
		}
		state[file] = 2
	}
	for file := range got {
		visit(nil, file)
	}
}

// fileGraph type-checks the package and notes for each file the other files whose
// declarations (types, functions, methods, fields, constants, variables) it uses.
func fileGraph(t *testing.T) map[string][]string {
	var list bytes.Buffer
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}", ".")
	cmd.Stdout, cmd.Stderr = &list, os.Stderr
	require.NoError(t, cmd.Run())
	exports := map[string]string{}
	for line := range strings.Lines(list.String()) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}

	fset := token.NewFileSet()
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var files []*ast.File
	graph := map[string][]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
		graph[path] = nil
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	pkg, err := config.Check("github.com/watermill-contrib/watermill-sqs", fset, files, info)
	require.NoError(t, err)

	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		from, to := fset.Position(ident.Pos()).Filename, fset.Position(object.Pos()).Filename
		if from != to && !slices.Contains(graph[from], to) {
			graph[from] = append(graph[from], to)
		}
	}
	for file := range graph {
		slices.Sort(graph[file])
	}
	return graph
}

// documentedGraph reads the rows "| `file.go` | what | `a.go`, `b.go` |" of
// DESIGN.md's file map.
func documentedGraph(t *testing.T) map[string][]string {
	text, err := os.ReadFile("DESIGN.md")
	require.NoError(t, err)
	graph := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") || !strings.HasSuffix(strings.TrimSpace(cells[1]), ".go`") {
			continue
		}
		var uses []string
		for cell := range strings.SplitSeq(cells[3], ",") {
			if name := strings.Trim(strings.TrimSpace(cell), "`"); strings.HasSuffix(name, ".go") {
				uses = append(uses, name)
			}
		}
		slices.Sort(uses)
		graph[strings.Trim(strings.TrimSpace(cells[1]), "`")] = uses
	}
	return graph
}

// Every Go snippet of the README stands in example_test.go, and so compiles.
func TestReadmeSnippets(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	examples, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	squeeze := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	code := squeeze(string(examples))
	snippets := strings.Split(string(readme), "```go\n")[1:]
	require.NotEmpty(t, snippets)
	for _, snippet := range snippets {
		snippet, _, _ = strings.Cut(snippet, "```")
		require.Contains(t, code, squeeze(snippet))
	}
}

// Every test that a document names, or that the comment of a test says to see, is there.
func TestNamesOfTests(t *testing.T) {
	declared, named := map[string]bool{}, map[string]string{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w+)\(`)
	inMarkdown := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w+)`")
	inComment := regexp.MustCompile(`//.*\bsee ((?:Test|Fuzz)[A-Z]\w+)`)
	require.NoError(t, filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range function.FindAllStringSubmatch(string(text), -1) {
			declared[match[1]] = true
		}
		names := inComment
		if strings.HasSuffix(path, ".md") {
			names = inMarkdown
		}
		for _, match := range names.FindAllStringSubmatch(string(text), -1) {
			named[match[1]] = path
		}
		return err
	}))
	require.NotEmpty(t, named)
	for name, path := range named {
		assert.True(t, declared[name], "%s names %s, which does not exist", path, name)
	}
}
