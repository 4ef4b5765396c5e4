// Package house keeps the house in order: its tests read the source of the whole module
// and fail where a package imports what it must not, or does what belongs to another.
//
// It reads text, not behaviour: a rule that is kept here by name can still be broken by a
// detour (a function value, reflection, an assembly file). It is a fence, not a wall.
package house
