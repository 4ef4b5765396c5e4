package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/internal/ports"
)

// resourceOf is the address of a file.
func resourceOf(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// TestMCPResources lists, reads and follows files as resources, over both transports, on
// each protocol version.
func TestMCPResources(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	in := func(p string) string { return filepath.Join(d.Root, p) }
	gitAt(t, d.Root, "init", "-q")
	write(t, in(".gitignore"), "ignored\n")
	write(t, in("ignored"), "x")
	write(t, in("big"), strings.Repeat("x", 1<<20+1))
	write(t, in("bin"), "\x00\x01\xff")
	var want []string
	for i := range 600 {
		p := fmt.Sprintf("many/f %03d #?%%.txt", i)
		write(t, in(p), fmt.Sprint(i))
		want = append(want, resourceOf(in(p)))
	}
	want = append([]string{resourceOf(in("big")), resourceOf(in("bin"))}, want...)
	write(t, filepath.Join(d.Root, "..", "outside"), "secret")
	for _, version := range mcpVersions {
		for _, way := range []string{"stdio", "HTTP"} {
			t.Run(way+" "+version, func(t *testing.T) {
				news := make(chan string, 64)
				opts := &sdk.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { news <- r.Params.URI }}
				var c *mcpTools
				if way == "stdio" {
					c = d.stdio(version, opts)
				} else {
					c = d.overHTTP(addr, d.Agent, version, opts)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
				defer cancel()
				var got []string
				for r, err := range c.Resources(ctx, nil) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, r.URI)
				}
				if !slices.Equal(got, want) {
					t.Errorf("listed %d, want %d; only ours %v", len(got), len(want), only(got, want))
				}
				r, err := c.ReadResource(ctx, &sdk.ReadResourceParams{URI: want[9]})
				if err != nil || r.Contents[0].Text != "7" {
					t.Errorf("read: %v %v", r, err)
				}
				if r, err = c.ReadResource(ctx, &sdk.ReadResourceParams{URI: resourceOf(in("bin"))}); err != nil || string(r.Contents[0].Blob) != "\x00\x01\xff" {
					t.Errorf("bytes: %v %v", r, err)
				}
				for _, uri := range []string{resourceOf(in("big")), resourceOf(in("no")), resourceOf(filepath.Join(d.Root, "..", "outside")), "file:///etc/passwd",
					"file://" + d.Root + "/../outside", "https://example.com/x", resourceOf(d.Root)} {
					if r, err := c.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri}); err == nil {
						t.Errorf("%s: got %v", uri, r.Contents)
					}
				}
				one, dir := want[5], resourceOf(in("many"))
				for _, uri := range []string{one, dir} {
					if err := c.Subscribe(ctx, &sdk.SubscribeParams{URI: uri}); err != nil {
						t.Fatal(err)
					}
				}
				if version < "2026" && c.Subscribe(ctx, &sdk.SubscribeParams{URI: "file:///etc/passwd"}) == nil {
					t.Error("a file outside can be followed")
				}
				heard := func(uris ...string) {
					t.Helper()
					missing := slices.Clone(uris)
					for end := time.After(60 * time.Second); len(missing) > 0; {
						select {
						case uri := <-news:
							if !slices.Contains(uris, uri) {
								t.Errorf("told of %s", uri)
							}
							missing = slices.DeleteFunc(missing, func(s string) bool { return s == uri })
						case <-end:
							t.Fatalf("not told of %v", missing)
						}
					}
				}
				time.Sleep(100 * time.Millisecond) // a request to listen has no answer to wait for
				write(t, in("ignored"), "y")
				write(t, in("many/new"), "x")
				heard(dir)
				if err := os.Remove(in("many/new")); err != nil {
					t.Fatal(err)
				}
				heard(dir)
				write(t, in("many/f 003 #?%.txt"), "3")
				heard(one, dir)
				if way == "stdio" && version == "2025-11-25" {
					d.restart()
					heard(one, dir) // nobody saw what changed meanwhile
					write(t, in("many/f 003 #?%.txt"), "3")
					heard(one, dir)
				}
				if version < "2026" {
					if err := c.Unsubscribe(ctx, &sdk.UnsubscribeParams{URI: dir}); err != nil {
						t.Fatal(err)
					}
					write(t, in("many/f 003 #?%.txt"), "3")
					heard(one)
				}
			})
		}
	}
	t.Run("a token that was taken back hears no more", func(t *testing.T) {
		_, made := d.http("POST", "/v1/tokens", d.reviewer(), M{"name": "passing", "role": "agent"})
		c := d.overHTTP(addr, text(made, "token"), "2025-11-25", nil)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := c.Subscribe(ctx, &sdk.SubscribeParams{URI: want[0]}); err != nil {
			t.Fatal(err)
		}
		d.http("DELETE", "/v1/tokens/"+text(made, "id"), d.reviewer(), nil)
		write(t, in("big"), "small now")
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("its session goes on")
		}
	})
}
