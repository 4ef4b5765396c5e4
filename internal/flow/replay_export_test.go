package flow

import "holdpoint/op"

// BasisOf is what the journal keeps of one judgement's inputs, for tests.
func BasisOf(q op.Terms, p op.Profile, f op.Facts, e op.Environment) []byte {
	return (&basis{Request: q, Profile: p, Facts: f, Environment: e, BaseMode: p.Mode}).onRecord()
}
