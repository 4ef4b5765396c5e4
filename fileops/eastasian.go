package fileops

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// Names of the encodings of East Asia that are told by their text. The bytes of one are
// mostly text of the others too, so a name is given only where exactly one of them reads
// like its language: kana in Japanese, syllables in Korean, the commonest characters in
// Chinese. Short texts have no name. ISO-2022 is not told: its bytes are ASCII.
var eastAsian = []eastern{
	{"shift_jis", japanese.ShiftJIS, counted.japanese},
	{"euc-jp", japanese.EUCJP, counted.japanese},
	{"euc-kr", korean.EUCKR, counted.korean},
	{"gb18030", simplifiedchinese.GB18030, func(c counted) bool { return c.chinese(c.simplified) }},
	{"big5", traditionalchinese.Big5, func(c counted) bool { return c.chinese(c.traditional) }},
}

type eastern struct {
	name  string
	set   encoding.Encoding
	reads func(c counted) bool
}

const (
	eastAsianHead = 16 << 10 // bytes that are looked at
	tooFew        = 12       // fewer tell nothing
)

// counted is what a text would be made of in one encoding: its letters beyond ASCII.
type counted struct {
	letters, kana, halfKana, hangul, han, simplified, traditional, odd int
}

func (c counted) japanese() bool {
	return c.kana*4 >= c.letters && (c.kana+c.han)*20 >= c.letters*19 && c.halfKana*20 <= c.letters && c.odd == 0
}

func (c counted) korean() bool { return c.hangul*10 >= c.letters*9 && c.odd == 0 }

// chinese takes one in eight for the least share of the hundred commonest characters: in
// running text they are two in five, in bytes that mean something else one in thirty.
func (c counted) chinese(common int) bool {
	return c.han*20 >= c.letters*19 && common*8 >= c.letters && c.odd == 0
}

const (
	commonSimplified  = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实"
	commonTraditional = "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實"
)

// eastAsianName names the encoding of bytes that are not UTF-8; empty where that cannot be
// told.
func eastAsianName(b []byte) string {
	b = b[:min(len(b), eastAsianHead)]
	name := ""
	for _, e := range eastAsian {
		text, err := e.set.NewDecoder().Bytes(b)
		if err != nil || !settled(text) {
			continue
		}
		if c := lettersOf(string(text)); c.letters >= tooFew && e.reads(c) {
			if name != "" {
				return ""
			}
			name = e.name
		}
	}
	return name
}

// settled reports whether all bytes meant something, but for a character that the end of
// what was looked at cut through.
func settled(text []byte) bool {
	at := strings.IndexRune(string(text), utf8.RuneError)
	return at < 0 || at >= len(text)-3*utf8.UTFMax
}

func lettersOf(text string) (c counted) {
	for _, r := range text {
		switch {
		case r < 0x80 || r == utf8.RuneError:
			continue
		case r >= 0x80 && r < 0xa0 || unicode.Is(unicode.Co, r):
			c.odd++
			continue
		case !unicode.IsLetter(r):
			continue
		}
		c.letters++
		switch {
		case r >= 0xff66 && r <= 0xff9f:
			c.halfKana++
		case unicode.In(r, unicode.Hiragana, unicode.Katakana):
			c.kana++
		case unicode.Is(unicode.Hangul, r):
			c.hangul++
		case unicode.Is(unicode.Han, r):
			c.han++
			if strings.ContainsRune(commonSimplified, r) {
				c.simplified++
			}
			if strings.ContainsRune(commonTraditional, r) {
				c.traditional++
			}
		}
	}
	return c
}
