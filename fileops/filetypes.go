package fileops

import (
	"strings"

	"holdpoint/op"
)

// fileTypes says by which names a kind of file is known: an ending with its dot, or a
// whole name.
var fileTypes = map[string][]string{
	"c": {".c", ".h"}, "cpp": {".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".h", ".inl"}, "csharp": {".cs"}, "css": {".css", ".scss", ".sass", ".less"},
	"csv": {".csv", ".tsv"}, "dart": {".dart"}, "docker": {"Dockerfile", ".dockerfile"}, "elixir": {".ex", ".exs"}, "go": {".go"},
	"graphql": {".graphql", ".gql"}, "haskell": {".hs"}, "html": {".html", ".htm"}, "java": {".java"}, "js": {".js", ".jsx", ".mjs", ".cjs", ".vue"},
	"json": {".json", ".jsonc", ".json5"}, "kotlin": {".kt", ".kts"}, "lua": {".lua"}, "make": {"Makefile", "makefile", "GNUmakefile", ".mk"},
	"md": {".md", ".markdown", ".mdx"}, "perl": {".pl", ".pm"}, "php": {".php"}, "proto": {".proto"}, "py": {".py", ".pyi"}, "ruby": {".rb", "Rakefile", "Gemfile"},
	"rust": {".rs"}, "scala": {".scala", ".sc"}, "sh": {".sh", ".bash", ".zsh"}, "sql": {".sql"}, "swift": {".swift"}, "tf": {".tf", ".tfvars"},
	"toml": {".toml"}, "ts": {".ts", ".tsx", ".mts", ".cts"}, "txt": {".txt"}, "xml": {".xml", ".xsd", ".xsl", ".svg"}, "yaml": {".yaml", ".yml"}, "zig": {".zig"},
}

// picker tells which files a search looks into.
func picker(none Rules, a *op.SearchArgs) (func(dir, name string) bool, error) {
	include := a.Include
	if a.Glob != "" {
		if _, err := patterns(none, []string{a.Glob}, "args.glob"); err != nil {
			return nil, err
		}
		include = append([]string{a.Glob}, include...)
	}
	only, err := patterns(none, include, "args.include")
	if err != nil {
		return nil, err
	}
	endings := map[string]bool{}
	for _, t := range a.Types {
		list, ok := fileTypes[t]
		if !ok {
			return nil, op.Fail(op.BadRequest, "unknown type of file: "+op.Visible(t, false)).In("args.types").Do(`give a glob such as "*.ext" instead`)
		}
		for _, e := range list {
			endings[e] = true
		}
	}
	return func(dir, name string) bool {
		if len(endings) > 0 && !endings[name] && !endings[name[max(0, strings.LastIndexByte(name, '.')):]] {
			return false
		}
		if only == nil {
			return true
		}
		if dir != "" {
			name = dir + "/" + name
		}
		return covers(only, name, false)
	}, nil
}
