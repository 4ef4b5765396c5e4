package page

import (
	"crypto/sha512"
	"encoding/base64"
	"html"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func TestHandler(t *testing.T) {
	h := Handler()
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	document := get("/").Body.String()
	t.Run("S67 (part) every file of the document is served as it says", func(t *testing.T) {
		found := regexp.MustCompile(`(?:src|href)="(/page/[^"]+)"(?: integrity="([^"]+)")?`).FindAllStringSubmatch(document, -1)
		if len(found) < len(assets) {
			t.Fatalf("the document names %d files, want %d", len(found), len(assets))
		}
		for _, f := range found {
			w := get(f[1])
			sum := sha512.Sum384(w.Body.Bytes())
			if w.Code != 200 || w.Header().Get("Content-Security-Policy") == "" {
				t.Errorf("%s: %d", f[1], w.Code)
			}
			if want := "sha384-" + base64.StdEncoding.EncodeToString(sum[:]); f[2] != "" && html.UnescapeString(f[2]) != want {
				t.Errorf("%s: integrity %s, want %s", f[1], f[2], want)
			}
			if strings.HasSuffix(f[1], ".js") && f[2] == "" {
				t.Errorf("%s has no integrity", f[1])
			}
		}
		if w := get("/page/other"); w.Code != 404 {
			t.Errorf("an unknown file: %d", w.Code)
		}
	})
	t.Run("S67 (part) nothing in the page makes markup or code of text, or keeps a secret", func(t *testing.T) {
		for _, a := range assets {
			text := string(mustRead(a.name))
			for _, no := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "srcdoc", "document.cookie", "sessionStorage", "http://evil", "https://"} {
				if strings.Contains(text, no) {
					t.Errorf("%s has %s", a.name, no)
				}
			}
		}
		if regexp.MustCompile(`<script>|<style|\son\w+=|style=|javascript:`).MatchString(document) {
			t.Error("the document has inline script or style")
		}
	})
}
