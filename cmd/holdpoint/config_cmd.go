package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

func configCommand(a *app) *cobra.Command {
	var config string
	var show bool
	initialise := &cobra.Command{Use: "init", Short: "Write a commented configuration, with every key at its default", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.configInit(config, show) }}
	initialise.Flags().StringVar(&config, "config", "", "the file to write (else HOLDPOINT_CONFIG, else the user's)")
	initialise.Flags().BoolVar(&show, "print", false, "print it instead")
	check := &cobra.Command{Use: "check [FILE]", Short: "Read the configuration as the daemon would, and say what is wrong", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.configCheck(args[0])
			}
			return a.configCheck("")
		}}
	return a.group("config", "The configuration file", initialise, check)
}

// configInit never writes over a file: it says where one lies.
func (a *app) configInit(flag string, show bool) error {
	if show {
		fmt.Fprint(a.Out, configTemplate)
		return nil
	}
	path, _ := configPath(flag, a.Env)
	if path == "" {
		return usagef("no place for the configuration: give --config, or set HOLDPOINT_CONFIG or HOME")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return op.Fail(op.IOError, "the directory of the configuration cannot be made").Because(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return op.Fail(op.Exists, "a configuration is there already: "+path).Do("edit it, or see config init --print")
	}
	if err == nil {
		_, err = f.WriteString(configTemplate)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return op.Fail(op.IOError, "the configuration cannot be written").Because(err)
	}
	if a.json {
		a.printJSON(map[string]any{"path": path})
	} else {
		fmt.Fprintf(a.Out, "Wrote %s; every key stands in it, commented out.\n", line(path))
	}
	return nil
}

func (a *app) configCheck(flag string) error {
	if _, err := readConfig(flag, a.Env); err != nil {
		return err
	}
	found := []map[string]string{}
	var words []string
	for _, l := range configLayers(flag, a.Env) {
		if _, err := os.Stat(l.path); err == nil {
			found = append(found, map[string]string{"kind": l.kind, "path": l.path})
			words = append(words, l.kind+" "+line(l.path))
		}
	}
	if a.json {
		a.printJSON(map[string]any{"valid": true, "layers": found})
		return nil
	}
	if len(words) == 0 {
		fmt.Fprintln(a.Out, "valid: there is no file, so the defaults hold")
		return nil
	}
	fmt.Fprintln(a.Out, "valid: "+strings.Join(words, ", then over it "))
	return nil
}
