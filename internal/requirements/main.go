// Command requirements says which requirement ids the tests cover, which do not apply and
// which are open. It believes the names of tests; whether a test that carries an id really
// shows the requirement is for the reader of the test to judge.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns 0, 1 when the lists and the tests contradict each other, and 2 for wrong use.
func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("requirements", flag.ContinueOnError)
	flags.SetOutput(errs)
	verbose := flags.Bool("v", false, "list every id with its tests")
	kinds := flags.Bool("kinds", false, "count the security cases by kind")
	cases := flags.String("cases", "", "list the tests that name an id of this letter, by package")
	log := flags.String("ran", "", "with -cases: say what this log of go test -v shows of each id, and what it leaves out")
	onlyOpen := flags.Bool("open", false, "list only the ids that are open or covered in part")
	root := flags.String("root", ".", "the module's directory")
	prove := flags.Int("prove", 0, "take out the guards of so many covered ids, and run their tests")
	seed := flags.Uint64("seed", 0, "which ids (0: chosen and printed)")
	only := flags.String("only", "", "prove exactly these ids, joined by commas")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	list, err := readLists(filepath.Join(*root, "testdata", "requirements"))
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	claims, err := scan(*root)
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	faults := list.join(claims)
	switch {
	case *cases != "":
		return list.cases(*root, *cases, *log, claims, out, errs)
	case *prove > 0 || *only != "":
		return list.prove(*root, *prove, *seed, *only, out, errs)
	case *kinds:
		list.printKinds(out)
	case *onlyOpen:
		list.printOpen(out)
	case *verbose:
		list.printAll(out)
	default:
		list.printCounts(out)
	}
	for _, f := range faults {
		fmt.Fprintln(errs, f)
	}
	if len(faults) > 0 {
		return 1
	}
	return 0
}

// cases lists the tests of the ids of a letter, or judges the log of a run of them.
func (l *lists) cases(root, letter, log string, claims []claim, out, errs io.Writer) int {
	tests, err := caseTests(root, letter, claims)
	if err == nil && log == "" {
		printTests(out, tests)
		return 0
	}
	good := false
	if err == nil {
		good, err = l.printRan(out, letter, log, tests, claims)
	}
	if err != nil {
		fmt.Fprintln(errs, err)
	}
	if !good {
		return 1
	}
	return 0
}
