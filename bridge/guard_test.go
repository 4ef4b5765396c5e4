package bridge

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestGuard(t *testing.T) {
	h := Guard(func(host string) bool { return host == "localhost:1" }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Run("S67 (part) a link from another site opens the page, and nothing else of another site passes", func(t *testing.T) {
		for _, c := range []struct {
			method, path, mode, dest, origin string
			want                             int
		}{
			{"GET", "/", "navigate", "document", "", 200},
			{"GET", "/v1/login/provider/done", "navigate", "document", "", 200},
			{"GET", "/v1/status", "navigate", "document", "", 403},
			{"GET", "/v1/login/provider", "navigate", "document", "", 403}, // nobody else's page begins a sign-in
			{"GET", "/", "navigate", "iframe", "", 403},
			{"GET", "/", "no-cors", "script", "", 403},
			{"POST", "/", "navigate", "document", "", 403},
			{"GET", "/", "navigate", "document", "https://evil.example", 403},
			{"POST", "/v1/login", "cors", "empty", "https://evil.example", 403},
		} {
			r := httptest.NewRequest(c.method, "http://localhost:1"+c.path, nil)
			for name, v := range map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": c.mode, "Sec-Fetch-Dest": c.dest, "Origin": c.origin} {
				if v != "" {
					r.Header.Set(name, v)
				}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%+v: got %d", c, w.Code)
			}
		}
	})
}
