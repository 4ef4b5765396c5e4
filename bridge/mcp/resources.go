package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/op"
)

// The files of a workspace are resources, by the address that they have on the machine:
// file:///DIR/PATH. Listing and reading them are calls like any other, with a decision and
// a line in the audit; what is too large for one answer is refused, and view_file reads it
// in parts.

// resourcePage is how many files one page of resources/list looks for.
const resourcePage = 500

// maxResource is how many bytes one resource may have.
const maxResource = 1 << 20

// resourceCalls answers the methods that read resources, before the SDK's own table, which
// would have to hold every file.
func (s *Server) resourceCalls(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch method {
		case "resources/list", "resources/read", "resources/templates/list":
		case "subscriptions/listen":
			// What the SDK asks of us for each address does not say who asked.
			return next(context.WithValue(ctx, askedBy{}, sessionOf(req)), method, req)
		default:
			return next(ctx, method, req)
		}
		c, dir, err := s.placeOf(ctx, sessionOf(req))
		if err != nil {
			return nil, err
		}
		switch p := req.GetParams().(type) {
		case *sdk.ListResourcesParams:
			cursor := ""
			if p != nil {
				cursor = p.Cursor
			}
			return c.resources(ctx, dir, cursor)
		case *sdk.ReadResourceParams:
			return c.resource(ctx, dir, p.URI)
		}
		return &sdk.ListResourceTemplatesResult{ResourceTemplates: []*sdk.ResourceTemplate{}, Cacheable: sdk.Cacheable{CacheScope: "private"}}, nil
	}
}

// askedBy is the key of a session in a context.
type askedBy struct{}

// placeOf finds who asks, and the directory where they work.
func (s *Server) placeOf(ctx context.Context, ses *session) (*caller, string, error) {
	if ses == nil {
		return nil, "", op.Fail(op.Unauthenticated, "nobody knows whose session this is")
	}
	c, err := s.caller(ctx, ses)
	if err != nil {
		return nil, "", err
	}
	dir, err := s.engine.Root(ctx, c.by, c.root)
	return c, dir, err
}

// address names a path of a root, as the wire has it, as a resource.
func address(dir, wire string) (string, error) {
	p, err := op.Unescape(wire)
	if err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "file", Path: path.Join(dir, p)}).String(), nil
}

// pathOf gives the path that a resource names, in the form of the wire.
func pathOf(dir, uri string) (string, error) {
	u, err := url.Parse(uri)
	inside := ""
	if err == nil && u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && path.Clean(u.Path) == u.Path {
		switch {
		case u.Path == dir:
			inside = "."
		case strings.HasPrefix(u.Path, strings.TrimSuffix(dir, "/")+"/"):
			inside = u.Path[len(strings.TrimSuffix(dir, "/"))+1:]
		}
	}
	if inside == "" {
		return "", sdk.ResourceNotFoundError(uri)
	}
	return op.Escape(inside), nil
}

// reads calls a reading and gives its result in the form of the wire.
func (c *caller) reads(ctx context.Context, name op.Name, args op.Object) (op.Object, error) {
	r := c.engine.Call(ctx, c.by, op.Request{Op: name, Root: c.root, Args: args, Session: c.label}, nil)
	if r.Status != op.Done {
		if r.Error != nil {
			return nil, r.Error
		}
		return nil, op.Fail(op.Forbidden, "readings wait for a person in this mode").Do("call " + string(name) + " instead, and wait for the answer")
	}
	b, err := json.Marshal(r.Result)
	if err != nil {
		return nil, err
	}
	return op.ParseJSON(b)
}

// resources lists a page of the files that git does not ignore.
func (c *caller) resources(ctx context.Context, dir, cursor string) (sdk.Result, error) {
	args := op.Object{"page_size": int64(resourcePage)}
	if cursor != "" {
		args["page"] = cursor
	}
	page, err := c.reads(ctx, op.FileTree, args)
	if err != nil {
		return nil, err
	}
	next, _ := page["next"].(string)
	out := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}, NextCursor: next, Cacheable: sdk.Cacheable{CacheScope: "private"}}
	entries, _ := page["entries"].([]any)
	for _, one := range entries {
		e, _ := one.(op.Object)
		if e["type"] != string(op.File) {
			continue
		}
		name, _ := e["path"].(string)
		size, _ := e["size"].(int64)
		at, err := address(dir, name)
		if err != nil {
			return nil, err
		}
		out.Resources = append(out.Resources, &sdk.Resource{URI: at, Name: op.Visible(name, false), Size: size})
	}
	return out, nil
}

// resource reads one file whole.
func (c *caller) resource(ctx context.Context, dir, uri string) (sdk.Result, error) {
	at, err := pathOf(dir, uri)
	if err != nil {
		return nil, err
	}
	got, err := c.reads(ctx, op.ViewFile, op.Object{"path": at, "offset": int64(0), "limit": int64(maxResource)})
	if err != nil {
		if op.AsError(err).Code == op.NotFound {
			return nil, sdk.ResourceNotFoundError(uri)
		}
		return nil, err
	}
	if got["eof"] != true {
		return nil, op.Fail(op.TooLarge, "the file is larger than a resource may be").At(op.Path(at)).Do("read it in parts with view_file")
	}
	one := &sdk.ResourceContents{URI: uri}
	if text, is := got["content"].(string); is {
		one.Text, one.MIMEType = text, "text/plain"
	} else {
		one.MIMEType, _ = got["mime"].(string)
		raw, _ := got["content_base64"].(string)
		if one.Blob, err = base64.StdEncoding.DecodeString(raw); err != nil {
			return nil, err
		}
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{one}, Cacheable: sdk.Cacheable{CacheScope: "private"}}, nil
}
