package mcp

import (
	"bytes"
	"io"
	"net/http"

	"holdpoint/op"
)

// unfit refuses a message that two readers could read as two different ones: with a key
// that stands twice, bytes that are not UTF-8, or data behind it. The SDK's decoder keeps
// the last of two equal keys, so it is asked only after this. Numbers may be of any kind
// here; a call's arguments are read by the strict rules later.
func unfit(message []byte) error {
	if _, err := op.ParseJSON(message); err == nil {
		return nil
	}
	_, err := op.ParseJSON(withoutNumbers(message))
	return err
}

// withoutNumbers gives the message with each number outside a string written as 0.
func withoutNumbers(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			end := i + 1
			for end < len(b) && b[end] != '"' {
				if b[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end, len(b)-1)
			out = append(out, b[i:end+1]...)
			i = end
		case c == '-' || c >= '0' && c <= '9':
			for i+1 < len(b) && bytes.IndexByte([]byte("+-.eE0123456789"), b[i+1]) >= 0 {
				i++
			}
			out = append(out, '0')
		default:
			out = append(out, c)
		}
	}
	return out
}

// strictBody reads a request's message and puts it back, refusing what is unfit.
func strictBody(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		return true
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLine))
	if err != nil {
		http.Error(w, "the message cannot be read or is too large", http.StatusRequestEntityTooLarge)
		return false
	}
	if err := unfit(body); err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		w.Write(refusal(err))
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

// refusal answers a message whose id nobody can trust.
func refusal(err error) []byte {
	b := []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":`)
	b = op.AppendString(b, "bad_request: "+op.AsError(err).Message)
	return append(b, "}}\n"...)
}

// maxLine bounds one message, in bytes.
const maxLine = 48 << 20
