package bridge

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Behind lets proxies of a list say by which host they were asked. What anybody else says
// of that counts for nothing.
func Behind(proxies []netip.Prefix, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Host"), ","); host != "" && fromProxy(proxies, r.RemoteAddr) {
			r.Host = strings.TrimSpace(host)
		}
		next.ServeHTTP(w, r)
	})
}

func fromProxy(proxies []netip.Prefix, remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, p := range proxies {
		if p.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}
