package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"holdpoint/op"
	"holdpoint/trusted"
)

// managedConfig is where the administrator of a machine writes what its users cannot
// change. HOLDPOINT_MANAGED_CONFIG names one more such file; it never takes the place of
// this one.
const managedConfig = "/etc/holdpoint/holdpoint.toml"

// layer is one configuration file. The later one wins, key by key.
type layer struct {
	path  string
	named bool // somebody asked for exactly this file: it must be there
	kind  string
}

// configLayers names the files that count, the weakest first.
func configLayers(flag string, env func(string) string) []layer {
	var list []layer
	if path, named := configPath(flag, env); path != "" {
		list = append(list, layer{path, named, "user"})
	}
	list = append(list, layer{managedConfig, false, "managed"})
	if p := env("HOLDPOINT_MANAGED_CONFIG"); p != "" {
		list = append(list, layer{p, true, "managed"})
	}
	return list
}

// readConfigFile gives the configuration as it was written in all layers together, and the
// paths of those that are there; "" where there is none.
func readConfigFile(flag string, env func(string) string) (file fileConfig, path string, err error) {
	var all map[string]any
	var found []string
	for _, l := range configLayers(flag, env) {
		one, err := l.read()
		if err != nil {
			return fileConfig{}, "", err
		}
		if one != nil {
			all, found = overlay(all, one, ""), append(found, l.path)
		}
	}
	if len(found) == 0 {
		return file, "", nil
	}
	text, err := toml.Marshal(all)
	if err == nil {
		err = toml.Unmarshal(text, &file)
	}
	if err != nil {
		return file, "", op.Fail(op.Internal, "the layers of the configuration do not fit together").Because(err)
	}
	return file, strings.Join(found, " with "), nil
}

// read reads one file strictly; nil where there is none and none was named.
func (l layer) read() (map[string]any, error) {
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) && !l.named {
		return nil, nil
	}
	if err != nil {
		return nil, op.Fail(op.BadRequest, "the configuration "+l.path+" cannot be read").Because(err)
	}
	if info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return nil, op.Fail(op.StateUnsafe, "the configuration "+l.path+" is no file; reading it would wait for somebody")
	}
	if owner, err := ownerOf(info); err == nil && owner != 0 && owner != os.Geteuid() {
		return nil, op.Fail(op.StateUnsafe, fmt.Sprintf("the configuration %s belongs to user %d, who is neither root nor the daemon's user", l.path, owner)).Do("chown it; it says what runs without asking")
	}
	data, err := os.ReadFile(l.path)
	if err != nil {
		return nil, op.Fail(op.BadRequest, "the configuration "+l.path+" cannot be read").Because(err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, op.Fail(op.StateUnsafe, fmt.Sprintf("the configuration %s has mode %04o: others than its owner may write it", l.path, info.Mode().Perm())).Do("chmod go-w it; it says what runs without asking")
	}
	var file fileConfig
	dec := toml.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return nil, badConfig(l.path, err)
	}
	one := map[string]any{}
	if err := toml.Unmarshal(data, &one); err != nil {
		return nil, badConfig(l.path, err)
	}
	return one, nil
}

// overlay puts the stronger layer over the weaker one: tables key by key, lists that only
// add one after the other, all else as the stronger says.
func overlay(weak, strong map[string]any, at string) map[string]any {
	out := maps.Clone(weak)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range strong {
		was, had := out[k]
		inner, isTable := v.(map[string]any)
		below, wasTable := was.(map[string]any)
		list, isList := v.([]any)
		before, _ := was.([]any)
		switch {
		case isTable && wasTable:
			out[k] = overlay(below, inner, at+k+".")
		case isList && had && (at+k == "protected" || at+k == "notify"):
			out[k] = append(slices.Clone(before), list...)
		default:
			out[k] = v
		}
	}
	return out
}

// badConfig words what is wrong with a file: line, what stands there, and for a key that
// does not exist the nearest one that does.
func badConfig(path string, err error) error {
	msg := err.Error()
	var strict *toml.StrictMissingError
	var at *toml.DecodeError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		first := strict.Errors[0]
		line, _ := first.Position()
		key := first.Key()
		msg = fmt.Sprintf("line %d: unknown key %s", line, strings.Join(key, "."))
		if names := keysAt(key[:len(key)-1]); len(names) > 0 {
			msg += "; " + orNearest(key[len(key)-1], names, "the keys here are "+strings.Join(names, ", "))
		}
	} else if errors.As(err, &at) {
		line, _ := at.Position()
		msg = fmt.Sprintf("line %d: %s\n%s", line, at.Error(), at.String())
	}
	return op.Fail(op.BadRequest, "the configuration "+path+" is not right: "+msg).Do("mend it and try holdpoint config check; nothing starts on a half-understood configuration")
}

// keysAt lists the keys of the table at a path.
func keysAt(path []string) []string {
	t := reflect.TypeFor[fileConfig]()
	for _, name := range path {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Map:
			t = t.Elem()
			continue
		case reflect.Struct:
			if f, ok := fieldAt(t, name); ok {
				t = f.Type
				continue
			}
		}
		return nil
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("toml"))
	}
	return names
}

func fieldAt(t reflect.Type, name string) (reflect.StructField, bool) {
	return t.FieldByNameFunc(func(n string) bool {
		f, _ := t.FieldByName(n)
		return f.Tag.Get("toml") == name
	})
}

// guardConfig sees to it that no workspace reaches the configuration: it refuses, or in
// a broad root, which may hold all there is, hides its directory from every operation.
func (o *opened) guardConfig() error {
	var rest []layer
	for _, l := range o.layers {
		dir := filepath.Dir(l.path)
		if !o.broad || filepath.Base(dir) != "holdpoint" || trusted.Outside(l.path, o.engine.RootDirs()) == nil {
			rest = append(rest, l)
			continue
		}
		o.engine.HideDir(dir)
		o.engine.HideDir(filepath.Dir(realPath(l.path)))
	}
	return outsideWorkspaces(rest, o.engine.RootDirs())
}

// realPath follows the links on the way to a file, and of the file, as far as they go.
func realPath(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// outsideWorkspaces refuses a configuration that lies in a workspace: whoever is held to
// it could write it.
func outsideWorkspaces(list []layer, dirs []string) error {
	for _, l := range list {
		if trusted.Outside(l.path, dirs) != nil {
			return op.Fail(op.StateUnsafe, "the configuration "+filepath.Clean(l.path)+" lies inside a workspace").Do("keep it elsewhere, as agents could write it; in a broad root a directory named holdpoint is hidden from them")
		}
	}
	return nil
}
