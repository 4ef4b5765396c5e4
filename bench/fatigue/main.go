// Command fatigue says how often a person would have been asked in ten recorded hours of
// an agent's work: cards per hour, by reason.
//
// The recordings are in testdata/fatigue: what each call was judged from, without any
// content. Printing judges them again with the program's own judgement; -record makes them
// anew, with a real client at a real daemon. What the hours are, and what they are not, is
// in docs/fatigue.md.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	dir := flag.String("dir", "testdata/fatigue", "where the recordings are")
	record := flag.Bool("record", false, "make them anew")
	holdpoint := flag.String("holdpoint", "bin/holdpoint", "of -record: the program")
	repo := flag.String("repo", ".", "of -record: a repository whose history is worked through")
	only := flag.Int("hour", 0, "of -record: only this one of the ten")
	flag.Parse()
	var err error
	if *record {
		err = recordAll(*dir, *holdpoint, *repo, *only)
	} else {
		err = report(os.Stdout, *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fatigue:", err)
		os.Exit(1)
	}
}
