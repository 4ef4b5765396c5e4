package protected

// pairs are the pairs of bytes that a shape, or the header of a private key, begins with:
// at its first and at its second byte. Each beginning is at least three bytes long, so that
// one of every two neighbouring pairs of a text is enough to find it: most text is passed
// over at a glance, and only what holds such a pair is searched.
var pairs = func() (set [1 << 16]bool) {
	begin := func(s string) {
		set[pair(s[0], s[1])], set[pair(s[1], s[2])] = true, true
	}
	for _, s := range shapes {
		begin(s.prefix)
	}
	begin(keyHeader)
	return set
}()

func pair(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

// begins asks at for each place where one of the beginnings may stand, until it says yes.
func begins(content []byte, at func(i int) bool) bool {
	for i := 0; i+1 < len(content); i += 2 {
		if !pairs[pair(content[i], content[i+1])] {
			continue
		}
		if i > 0 && at(i-1) || at(i) {
			return true
		}
	}
	return false
}
