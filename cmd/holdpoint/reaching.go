package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// reaching says how the daemon is reached beyond its socket.
type reaching struct {
	publicURL, tlsCert, tlsKey string
	proxies                    []string
	insecure                   bool

	public  *url.URL // nil: none
	trusted []netip.Prefix
	cert    *certificate // nil: plain HTTP
}

func (f *reaching) flags(c *cobra.Command) {
	s := c.Flags()
	s.StringVar(&f.publicURL, "public-url", "", "where people reach the page, such as https://review.example.org: links name it and its host is served")
	s.StringVar(&f.tlsCert, "tls-cert", "", "serve --listen with TLS by this certificate (PEM), read again when it changes")
	s.StringVar(&f.tlsKey, "tls-key", "", "the certificate's key (PEM)")
	s.StringSliceVar(&f.proxies, "trusted-proxy", nil, "a proxy, by address or network, whose X-Forwarded-Host is believed; may come several times")
	s.BoolVar(&f.insecure, "insecure-listen", false, "listen beyond loopback without TLS")
}

// check reads the flags, and refuses to listen where other machines could read along.
func (f *reaching) check(listen string, say func(string, ...any)) error {
	if f.publicURL != "" {
		u, err := url.Parse(f.publicURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return usagef("--public-url is a scheme and a host alone, such as https://review.example.org")
		}
		u.Path = ""
		f.public = u
	}
	for _, p := range f.proxies {
		prefix, err := netip.ParsePrefix(p)
		if ip, bad := netip.ParseAddr(p); bad == nil {
			prefix, err = ip.Prefix(ip.BitLen())
		}
		if err != nil {
			return usagef("--trusted-proxy takes addresses such as 10.0.0.7 or 10.0.0.0/24")
		}
		f.trusted = append(f.trusted, prefix)
	}
	if (f.tlsCert == "") != (f.tlsKey == "") {
		return usagef("--tls-cert and --tls-key belong together")
	}
	if f.tlsCert != "" {
		f.cert = &certificate{certFile: f.tlsCert, keyFile: f.tlsKey, say: say}
		if err := f.cert.load(); err != nil {
			return op.Fail(op.IOError, "the certificate cannot be used").Because(err).Do("give PEM files of a certificate and its key")
		}
	}
	if listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return usagef("--listen needs HOST:PORT, such as 127.0.0.1:7117")
	}
	if loopback(host) || f.cert != nil || f.public != nil || f.insecure {
		return nil
	}
	return op.Fail(op.BadRequest, "listening beyond loopback needs TLS: tokens and passphrases would be read along").
		Do("give --tls-cert and --tls-key, or --public-url when a proxy in front has TLS, or --insecure-listen where the network itself is private")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// allowed tells by which hosts the listener is meant. A name that merely resolves to it
// is not among them: a web page could have made it do so.
func (f *reaching) allowed(l net.Listener, listen string) func(string) bool {
	local, asked := loopbackHost(l), listen
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if host, _, err := net.SplitHostPort(listen); err == nil {
		asked = net.JoinHostPort(host, port)
	}
	beyond := !loopback(hostOf(l.Addr().String()))
	return func(host string) bool {
		if f.public != nil && strings.EqualFold(withPort(host, f.public.Scheme), withPort(f.public.Host, f.public.Scheme)) {
			return true
		}
		if local(host) {
			return true
		}
		h, p, err := net.SplitHostPort(host)
		if err != nil {
			h, p = host, "443"
		}
		switch {
		case f.cert != nil:
			return p == port && f.cert.names(h)
		case beyond:
			return p == port && (host == asked || net.ParseIP(h) != nil)
		}
		return false
	}
}

func hostOf(addr string) string {
	h, _, _ := net.SplitHostPort(addr)
	return h
}

// withPort writes a host with the port that its scheme implies.
func withPort(host, scheme string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	if scheme == "https" {
		return host + ":443"
	}
	return host + ":80"
}

// base is where people reach the page, without a slash at its end; empty where not known.
func (f *reaching) base(listen string) string {
	_, port, err := net.SplitHostPort(listen)
	switch {
	case f.public != nil:
		return f.public.String()
	case err != nil || port == "0" || port == "":
		return ""
	case f.cert != nil:
		return "https://" + net.JoinHostPort(f.cert.firstName(), port)
	}
	return "http://localhost:" + port // an address could be no relying party of a passkey
}

// reviewAddress gives the page's address of a card: it carries no secret, and whoever
// opens it still proves to be the reviewer.
func (f *reaching) reviewAddress(listen string) func(op.ID) string {
	base := f.base(listen)
	if base == "" {
		return nil
	}
	return func(id op.ID) string { return base + "/#/approvals/" + string(id) }
}

// certificate is read again when its files change. A pair that cannot be used leaves the
// one before in its place.
type certificate struct {
	certFile, keyFile string
	say               func(string, ...any)

	mu    sync.Mutex // guards the rest
	pair  *tls.Certificate
	stamp [2]fileStamp
	asked time.Time
}

type fileStamp struct {
	size int64
	time time.Time
}

func stampOf(name string) fileStamp {
	info, err := os.Stat(name)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info.Size(), info.ModTime()}
}

// load reads both files; the caller holds mu or is alone.
func (c *certificate) load() error {
	c.stamp = [2]fileStamp{stampOf(c.certFile), stampOf(c.keyFile)}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err == nil && pair.Leaf == nil {
		pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	if err != nil {
		return err
	}
	c.pair = &pair
	return nil
}

// current looks at the files at most once a second.
func (c *certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.asked) >= time.Second {
		c.asked = now
		if c.stamp != [2]fileStamp{stampOf(c.certFile), stampOf(c.keyFile)} {
			if err := c.load(); err != nil {
				c.say("holdpoint: the new certificate cannot be used, the one before goes on: %s", op.Visible(err.Error(), false))
			} else {
				c.say("holdpoint: the certificate was read again")
			}
		}
	}
	return c.pair
}

func (c *certificate) names(host string) bool {
	return c.current().Leaf.VerifyHostname(strings.Trim(host, "[]")) == nil
}

func (c *certificate) firstName() string {
	leaf := c.current().Leaf
	if len(leaf.DNSNames) > 0 && !strings.HasPrefix(leaf.DNSNames[0], "*") {
		return leaf.DNSNames[0]
	}
	return "localhost"
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil }}
}
