package flow

import "holdpoint/op"

// inTree gives the steps that rooted carries out and settles. The others have happened
// when what they stage is in the store and their operation is on record.
func inTree(steps []op.Step) []op.Step {
	out := make([]op.Step, 0, len(steps))
	for _, s := range steps {
		if s.Do.InTree() {
			out = append(out, s)
		}
	}
	return out
}

// filled puts the steps that were held back among those that concern the store alone.
// Those that there was no more need of are not among the held.
func filled(all, held []op.Step) []op.Step {
	out := make([]op.Step, 0, len(all))
	for _, s := range all {
		if s.Do.InTree() {
			if len(held) == 0 || held[0].Do != s.Do || held[0].Path != s.Path {
				continue
			}
			s, held = held[0], held[1:]
		}
		out = append(out, s)
	}
	return out
}

// standing reports of each step whether what it begins with is what an earlier one makes, so
// that it cannot be compared with what stands there before that one was done.
func standing(steps []op.Step) []bool {
	out := make([]bool, len(steps))
	var earlier op.Touched
	for i, s := range steps {
		out[i] = earlier.By(s)
		earlier.Add(s)
	}
	return out
}

// onTheWay lists the directories that a call makes only to get to its targets. That one
// came to stand meanwhile is no change of anything that the call stands on.
func onTheWay(f op.Facts) []op.Path {
	var out []op.Path
	for _, t := range f.Targets {
		if t.Role == op.RoleParent && t.Kind == op.Absent {
			out = append(out, t.Path)
		}
	}
	return out
}
