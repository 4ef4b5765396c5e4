// Package page is the review page: one HTML document, one script and one style sheet,
// served from the binary as they lie here.
//
// It holds no data and knows no caller: the script asks the API with a token that a
// person got by logging in and that lives in the memory of that one page. It cannot
// protect a browser that is already in somebody else's hands.
package page

import (
	"crypto/sha256"
	"crypto/sha512"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
)

//go:embed assets
var files embed.FS

// assets are the files of the page, with their types.
var assets = []struct{ name, kind string }{
	{"page.css", "text/css; charset=utf-8"},
	{"text.js", "text/javascript; charset=utf-8"},
	{"diff.js", "text/javascript; charset=utf-8"},
	{"card.js", "text/javascript; charset=utf-8"},
	{"passkey.js", "text/javascript; charset=utf-8"},
	{"page.js", "text/javascript; charset=utf-8"},
	{"icon.svg", "image/svg+xml"},
}

// policy lets the page load its own files and ask its own host, and nothing else: no
// inline script or style, no frame around it, no form that leaves, no markup from text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// asset is one file as it is served.
type asset struct {
	kind string
	body []byte
}

// Handler serves "/" and what lies below "/page/". It panics when the embedded document
// names a file that is not there, which is a defect of the build.
func Handler() http.Handler {
	served := map[string]asset{}
	var words []string // what the document leaves open, each with what stands there
	for _, a := range assets {
		body := mustRead(a.name)
		sum, whole := sha256.Sum256(body), sha512.Sum384(body)
		at := "/page/" + hex.EncodeToString(sum[:6]) + "/" + a.name
		served[at] = asset{a.kind, body}
		// The address changes with the content; the browser compares what it finds there.
		words = append(words, "{{at "+a.name+"}}", at, "{{integrity "+a.name+"}}", "sha384-"+base64.StdEncoding.EncodeToString(whole[:]))
	}
	document := filled(string(mustRead("page.html")), words)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-read=(), publickey-credentials-get=(self), publickey-credentials-create=(self)")
		if r.URL.Path == "/" {
			h.Set("Content-Type", "text/html; charset=utf-8")
			h.Set("Cache-Control", "no-store")
			io.WriteString(w, document)
			return
		}
		a, known := served[r.URL.Path]
		if !known {
			http.Error(w, "no such file", http.StatusNotFound)
			return
		}
		h.Set("Content-Type", a.kind)
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		w.Write(a.body)
	})
}

// filled puts the words into the document. They are addresses and digests, which need no
// escape in an attribute. A template would do more, and keeps every method of the whole
// program in the binary, since one of them could be called by its name.
func filled(document string, words []string) string {
	document = strings.NewReplacer(words...).Replace(document)
	if strings.Contains(document, "{{") {
		panic("page: internal error: the document names a file that is not served")
	}
	return document
}

func mustRead(name string) []byte {
	b, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic("page: internal error: " + err.Error())
	}
	return b
}
