// Command release makes what goes along with the binaries: the licences of all that is in
// them, the bill of materials, and the changelog. Each is made from what the build itself
// uses, so that none of them can tell of another program.
//
//	release licenses            write cmd/holdpoint/licenses.txt.gz
//	release sbom FILE VERSION   write a CycloneDX bill of materials of the program
//	release changelog VERSION DATE   move changes/unreleased into CHANGELOG.md
//
// It ships with nothing. Modules are looked for where the go command keeps them.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "licenses":
		return writeLicenses(".")
	case len(args) == 3 && args[0] == "sbom":
		return writeSBOM(".", args[1], args[2])
	case len(args) == 3 && args[0] == "changelog":
		return assemble(".", args[1], args[2])
	}
	return fmt.Errorf("licenses, sbom FILE VERSION, or changelog VERSION DATE")
}
