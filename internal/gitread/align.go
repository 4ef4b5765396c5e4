package gitread

import "math"

// aligner finds which lines of two texts changed. It makes git's choices, so that its
// answers are git's: lines that the other side lacks are set aside first, the rest is
// divided where shortest edit scripts from both ends meet, and a change that could stand
// at several places stands where its lines' indentation suggests. Of a change of many
// hundred lines another alignment than git's may be chosen.
type aligner struct {
	a, b       []int32 // lines by number; equal lines have equal numbers
	text       [2][][]byte
	ina, inb   []bool // changed
	keepA      []int  // what is left to compare: indexes into a
	keepB      []int
	fwd, back  []int // how far the paths came, by diagonal
	zero, cost int
}

// span is one change: lines a0 to a1 became lines b0 to b1.
type span struct{ a0, a1, b0, b1 int }

// align gives the changes between two texts, cut into lines, in order.
func align(left, right [][]byte) []span {
	x := &aligner{text: [2][][]byte{left, right}, ina: make([]bool, len(left)), inb: make([]bool, len(right))}
	x.number()
	x.setAside()
	diagonals := len(x.keepA) + len(x.keepB) + 3
	x.fwd, x.back, x.zero = make([]int, 2*diagonals+2), make([]int, 2*diagonals+2), diagonals
	x.cost = max(256, roughRoot(diagonals))
	x.divide(0, len(x.keepA), 0, len(x.keepB))
	slide(x.a, left, x.ina, x.inb)
	slide(x.b, right, x.inb, x.ina)
	var out []span
	for i, j := 0, 0; i < len(x.a) || j < len(x.b); {
		s := span{i, i, j, j}
		for i < len(x.a) && x.ina[i] {
			i++
		}
		for j < len(x.b) && x.inb[j] {
			j++
		}
		if s.a1, s.b1 = i, j; s.a0 != s.a1 || s.b0 != s.b1 {
			out = append(out, s)
			continue
		}
		i, j = i+1, j+1
	}
	return out
}

func (x *aligner) number() {
	ids := map[string]int32{}
	for side, list := range x.text {
		nums := make([]int32, len(list))
		for i, l := range list {
			id, ok := ids[string(l)]
			if !ok {
				id = int32(len(ids))
				ids[string(l)] = id
			}
			nums[i] = id
		}
		if side == 0 {
			x.a = nums
		} else {
			x.b = nums
		}
	}
}

// roughRoot is a power of two near the square root.
func roughRoot(n int) int {
	r := 1
	for ; n > 0; n >>= 2 {
		r <<= 1
	}
	return r
}

// setAside marks lines as changed that the other side lacks, and very frequent ones that
// stand among such, and leaves the others to compare.
func (x *aligner) setAside() {
	begin, ea, eb := 0, len(x.a), len(x.b)
	for begin < ea && begin < eb && x.a[begin] == x.b[begin] {
		begin++
	}
	for ea > begin && eb > begin && x.a[ea-1] == x.b[eb-1] {
		ea, eb = ea-1, eb-1
	}
	x.keepA = leave(x.a, x.b, x.ina, begin, ea)
	x.keepB = leave(x.b, x.a, x.inb, begin, eb)
}

func leave(mine, other []int32, changed []bool, begin, end int) (keep []int) {
	times := map[int32]int{}
	for _, id := range other {
		times[id]++
	}
	many := min(roughRoot(len(mine)), 1024)
	rate := make([]uint8, len(mine)) // 0 nowhere, 1 somewhere, 2 often
	for i := begin; i < end; i++ {
		switch n := times[mine[i]]; {
		case n >= many:
			rate[i] = 2
		case n > 0:
			rate[i] = 1
		}
	}
	for i := begin; i < end; i++ {
		if rate[i] == 1 || rate[i] == 2 && !amongLost(rate, i, begin, end-1) {
			keep = append(keep, i)
		} else {
			changed[i] = true
		}
	}
	return keep
}

// amongLost tells whether a frequent line stands in a run of lines that the other side
// mostly lacks, on both sides of it.
func amongLost(rate []uint8, i, first, last int) bool {
	const window = 100
	first, last = max(first, i-window), min(last, i+window)
	count := func(step int) (lost, often int) {
		often = 1
		for k := i + step; k >= first && k <= last && rate[k] != 1; k += step {
			if rate[k] == 0 {
				lost++
			} else {
				often++
			}
		}
		return lost, often
	}
	lost0, often0 := count(-1)
	if lost0 == 0 {
		return false
	}
	lost1, often1 := count(1)
	if lost1 == 0 {
		return false
	}
	often, lost := often0+often1, lost0+lost1
	return often*4 < often+lost
}

func (x *aligner) same(i, j int) bool { return x.a[x.keepA[i]] == x.b[x.keepB[j]] }

// divide compares two stretches: what both begin or end with is the same, and what is left
// is cut where a shortest way from one to the other passes.
func (x *aligner) divide(a0, a1, b0, b1 int) {
	for {
		for a0 < a1 && b0 < b1 && x.same(a0, b0) {
			a0, b0 = a0+1, b0+1
		}
		for a0 < a1 && b0 < b1 && x.same(a1-1, b1-1) {
			a1, b1 = a1-1, b1-1
		}
		if a0 == a1 {
			for ; b0 < b1; b0++ {
				x.inb[x.keepB[b0]] = true
			}
			return
		}
		if b0 == b1 {
			for ; a0 < a1; a0++ {
				x.ina[x.keepA[a0]] = true
			}
			return
		}
		i, j := x.middle(a0, a1, b0, b1)
		x.divide(a0, i, b0, j)
		a0, b0 = i, j
	}
}

// middle is where the ways from both ends meet (Myers, "An O(ND) difference algorithm",
// 1986, section 4b); after too much work, the furthest that one of them came.
func (x *aligner) middle(a0, a1, b0, b1 int) (int, int) {
	f, r, z := x.fwd, x.back, x.zero
	least, most := a0-b1, a1-b0
	fmid, rmid := a0-b0, a1-b1
	odd := (fmid-rmid)&1 != 0
	fmin, fmax, rmin, rmax := fmid, fmid, rmid, rmid
	f[z+fmid], r[z+rmid] = a0, a1
	for work := 1; ; work++ {
		if fmin > least {
			fmin--
			f[z+fmin-1] = -1
		} else {
			fmin++
		}
		if fmax < most {
			fmax++
			f[z+fmax+1] = -1
		} else {
			fmax--
		}
		for d := fmax; d >= fmin; d -= 2 {
			i := f[z+d+1]
			if f[z+d-1] >= f[z+d+1] {
				i = f[z+d-1] + 1
			}
			for i < a1 && i-d < b1 && x.same(i, i-d) {
				i++
			}
			f[z+d] = i
			if odd && rmin <= d && d <= rmax && r[z+d] <= i {
				return i, i - d
			}
		}
		if rmin > least {
			rmin--
			r[z+rmin-1] = math.MaxInt
		} else {
			rmin++
		}
		if rmax < most {
			rmax++
			r[z+rmax+1] = math.MaxInt
		} else {
			rmax--
		}
		for d := rmax; d >= rmin; d -= 2 {
			i := r[z+d+1] - 1
			if r[z+d-1] < r[z+d+1] {
				i = r[z+d-1]
			}
			for i > a0 && i-d > b0 && x.same(i-1, i-d-1) {
				i--
			}
			r[z+d] = i
			if !odd && fmin <= d && d <= fmax && i <= f[z+d] {
				return i, i - d
			}
		}
		if work >= x.cost {
			return x.furthest(a0, a1, b0, b1, [4]int{fmin, fmax, rmin, rmax})
		}
	}
}

func (x *aligner) furthest(a0, a1, b0, b1 int, at [4]int) (int, int) {
	far, fi := -1, 0
	for d := at[1]; d >= at[0]; d -= 2 {
		i := min(x.fwd[x.zero+d], a1)
		if i-d > b1 {
			i = b1 + d
		}
		if i+i-d > far {
			far, fi = i+i-d, i
		}
	}
	near, ri := math.MaxInt, 0
	for d := at[3]; d >= at[2]; d -= 2 {
		i := max(a0, x.back[x.zero+d])
		if i-d < b0 {
			i = b0 + d
		}
		if i+i-d < near {
			near, ri = i+i-d, i
		}
	}
	if a1+b1-near < far-(a0+b0) {
		return fi, far - fi
	}
	return ri, near - ri
}

// run is a group of changed lines, maybe an empty one between two unchanged lines.
type run struct {
	changed    []bool
	start, end int
}

func firstRun(changed []bool) *run {
	g := &run{changed: changed}
	g.grow()
	return g
}

func (g *run) grow() {
	for g.end < len(g.changed) && g.changed[g.end] {
		g.end++
	}
}

func (g *run) next() bool {
	if g.end == len(g.changed) {
		return false
	}
	g.start, g.end = g.end+1, g.end+1
	g.grow()
	return true
}

func (g *run) previous() {
	if g.start == 0 {
		return
	}
	g.end, g.start = g.start-1, g.start-1
	for g.start > 0 && g.changed[g.start-1] {
		g.start--
	}
}

func (g *run) up(ids []int32) bool {
	if g.start == 0 || ids[g.start-1] != ids[g.end-1] {
		return false
	}
	g.start, g.end = g.start-1, g.end-1
	g.changed[g.start], g.changed[g.end] = true, false
	for g.start > 0 && g.changed[g.start-1] {
		g.start--
	}
	return true
}

func (g *run) down(ids []int32) bool {
	if g.end >= len(ids) || ids[g.start] != ids[g.end] {
		return false
	}
	g.changed[g.start], g.changed[g.end] = false, true
	g.start, g.end = g.start+1, g.end+1
	g.grow()
	return true
}

// slide moves each group of changed lines to the best of the places where it could stand:
// beside a change of the other side, else where indentation suggests, else down.
func slide(ids []int32, text [][]byte, changed, other []bool) {
	g, o := firstRun(changed), firstRun(other)
	for {
		if g.start != g.end {
			slideOne(g, o, ids, text)
		}
		if !g.next() {
			return
		}
		o.next()
	}
}

func slideOne(g, o *run, ids []int32, text [][]byte) {
	var size, highest, beside int
	for {
		size, beside = g.end-g.start, -1
		for g.up(ids) {
			o.previous()
		}
		highest = g.end
		if o.end > o.start {
			beside = g.end
		}
		for g.down(ids) {
			o.next()
			if o.end > o.start {
				beside = g.end
			}
		}
		if size == g.end-g.start {
			break
		}
	}
	switch {
	case g.end == highest:
	case beside >= 0:
		for o.end == o.start && g.up(ids) {
			o.previous()
		}
	default:
		const furthest = 100
		best, have := -1, rating{}
		for at := max(highest, g.end-size-1, g.end-furthest); at <= g.end; at++ {
			var r rating
			r.add(text, at)
			r.add(text, at-size)
			if best < 0 || r.against(have) <= 0 {
				best, have = at, r
			}
		}
		for g.end > best && g.up(ids) {
			o.previous()
		}
	}
}

// rating says how badly a group's ends fit to the indentation around them.
type rating struct{ indent, penalty int }

func (r rating) against(o rating) int {
	n := r.penalty - o.penalty
	if r.indent > o.indent {
		n += 60
	} else if r.indent < o.indent {
		n -= 60
	}
	return n
}

// add rates a cut before a line. The weights are those that git found by experiment.
func (r *rating) add(text [][]byte, at int) {
	indent, last := -1, at >= len(text)
	if !last {
		indent = indentOf(text[at])
	}
	before, blankBefore := around(text, at-1, -1)
	after, blankAfter := around(text, at+1, 1)
	if before == -1 && blankBefore == 0 {
		r.penalty++
	}
	if last {
		r.penalty += 21
	}
	blanks := 0
	if indent == -1 {
		blanks = 1 + blankAfter
		r.penalty += 6 * blanks
	}
	blanks += blankBefore
	r.penalty -= 30 * blanks
	if indent == -1 {
		indent = after
	}
	r.indent += indent
	pick := func(plain, withBlanks int) {
		if blanks != 0 {
			plain = withBlanks
		}
		r.penalty += plain
	}
	switch {
	case indent == -1 || before == -1 || indent == before:
	case indent > before:
		pick(-4, 10)
	case after != -1 && after > indent:
		pick(24, 17)
	default:
		pick(23, 17)
	}
}

// around gives the indentation of the nearest line that is not blank, and the blank ones
// on the way.
func around(text [][]byte, i, step int) (indent, blanks int) {
	for ; i >= 0 && i < len(text); i += step {
		if n := indentOf(text[i]); n != -1 {
			return n, blanks
		}
		if blanks++; blanks == 20 {
			return 0, blanks
		}
	}
	return -1, blanks
}

func indentOf(line []byte) int {
	n := 0
	for _, c := range line {
		switch c {
		case ' ':
			n++
		case '\t':
			n += 8 - n%8
		case '\n', '\r', '\v', '\f':
		default:
			return n
		}
		if n >= 200 {
			return 200
		}
	}
	return -1
}
