package fileops

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

const (
	inJapanese    = "設定ファイルを読み込んで、変更があった場合は再起動してください。\nこの関数は文字列を返します。エラーのときは空の文字列になります。\n// コメント: 日本語の説明\n"
	inKorean      = "설정 파일을 읽고 변경 사항이 있으면 다시 시작하십시오.\n이 함수는 문자열을 반환합니다. 오류가 있으면 빈 문자열이 됩니다.\n"
	inSimplified  = "如果配置文件有了变化，请重新启动这个服务。\n这个函数返回一个字符串，在出现错误的时候返回空字符串。我们不能在这里修改它。\n"
	inTraditional = "如果設定檔有了變化，請重新啟動這個服務。\n這個函式會傳回一個字串，在發生錯誤的時候傳回空字串。我們不能在這裡修改它。\n"
)

// Text of each language is named in each of its encodings, and what is no such text is not.
func TestEastAsian(t *testing.T) {
	for _, c := range []struct {
		text string
		set  encoding.Encoding
		want string
	}{
		{inJapanese, japanese.ShiftJIS, "shift_jis"},
		{inJapanese, japanese.EUCJP, "euc-jp"},
		{inKorean, korean.EUCKR, "euc-kr"},
		{inSimplified, simplifiedchinese.GBK, "gb18030"},
		{inSimplified, simplifiedchinese.GB18030, "gb18030"},
		{inTraditional, traditionalchinese.Big5, "big5"},
		{"Ошибка: файл настроек не найден. Проверьте путь и попробуйте ещё раз.\n", charmap.Windows1251, encEight},
		{"Ошибка: файл настроек не найден. Проверьте путь и попробуйте ещё раз.\n", charmap.KOI8R, encEight},
		{"Σφάλμα: το αρχείο ρυθμίσεων δεν βρέθηκε. Ελέγξτε τη διαδρομή.\n", charmap.ISO8859_7, encEight},
		{"שגיאה: קובץ ההגדרות לא נמצא. בדקו את הנתיב ונסו שוב.\n", charmap.Windows1255, encEight},
		{"Größe geändert, déjà vu, naïve façade, señor.\n", charmap.ISO8859_1, encLatin1},
	} {
		b, err := c.set.NewEncoder().Bytes([]byte(c.text))
		if err != nil {
			t.Fatal(c.want, err)
		}
		if got := Describe(b).Encoding; got != c.want {
			t.Errorf("%v: got %s, want %s", c.set, got, c.want)
		}
		long := []byte(strings.Repeat(string(b)+"x", 500)) // cut in the middle of characters, somewhere
		for cut := range 4 {
			if got := DescribePrefix(long[:eastAsianHead+cut]).Encoding; got != c.want {
				t.Errorf("%v, cut at %d: got %s, want %s", c.set, cut, got, c.want)
			}
		}
	}
	few, err := simplifiedchinese.GBK.NewEncoder().String("文件不在")
	if err != nil || Describe([]byte(few)).Encoding != encEight {
		t.Errorf("four characters: %v %v", Describe([]byte(few)).Encoding, err)
	}
	seed := uint64(3)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 3000 { // bytes of which many mean something in each
		b := make([]byte, 40+r.IntN(100))
		for i := range b {
			b[i] = byte(0xa1 + r.IntN(0x5e))
		}
		if got := Describe(b).Encoding; got != encEight {
			t.Fatalf("seed %d: noise %x is called %s", seed, b, got)
		}
	}
}
