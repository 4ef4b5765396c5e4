// Package reach is what a program tries that must not get out of its confinement, and a place
// outside with things to reach, for the tests of whatever confines.
//
// It ships in nothing, and proves nothing by itself: who uses it has to show as well that each
// try succeeds where the confinement is out.
package reach
