//go:build linux

package rooted

import "testing"

// What holds of a list that is held at once holds of one that is carried out in pieces, here
// of one step each.
func TestPiecesDoTheSame(t *testing.T) {
	t.Setenv(inPieces, "1")
	for name, test := range map[string]func(*testing.T){
		"steps on steps": TestStepsOnSteps, "random lists": TestRandomLists, "a crash at each point": TestSettleAfterCrash,
		"a crash at each point of steps on steps": TestSettleStepsOnSteps,
	} {
		t.Run(name, test)
	}
	for _, manner := range manners {
		t.Run("lease, "+manner, func(t *testing.T) {
			c := runCell(t, manner, "lease", count(t, "HOLDPOINT_HOSTILE_N", 100))
			t.Logf("%d rounds: landed %d, refused %d, diverted %d, lost %d", c.Rounds, c.Landed, c.Refused, c.Diverted, c.Lost)
			if c.Bad != "" {
				t.Fatal(c.Bad)
			}
			checkCell(t, c)
		})
	}
}
