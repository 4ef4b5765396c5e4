package notify

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"holdpoint/op"
)

// Notifier finds a program that asks the desktop to show a notification, as freedesktop.org
// lays it down for the session bus.
func Notifier(look func(string) (string, error)) (string, error) {
	for _, name := range []string{"notify-send", "gdbus"} {
		if at, err := look(name); err == nil {
			return at, nil
		}
	}
	return "", errors.New("desktop notifications need notify-send or gdbus, and neither is there (not_available)")
}

// desktop words a message for the program. Title and link are arguments of it and no
// shell's; a desktop reads the body as markup, so what would be markup is spelled.
func desktop(program string, m Message) []string {
	const head = "Holdpoint: waits for a person"
	body := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(op.Visible(m.Title, false))
	if m.Link != "" {
		body += "\n" + m.Link
	}
	if filepath.Base(program) == "gdbus" {
		return []string{program, "call", "--session", "--dest", "org.freedesktop.Notifications", "--object-path", "/org/freedesktop/Notifications",
			"--method", "org.freedesktop.Notifications.Notify", variant("Holdpoint"), "uint32 0", variant("dialog-question"), variant(head), variant(body), "@as []", "@a{sv} {}", "int32 -1"}
	}
	return []string{program, "--app-name=Holdpoint", "--icon=dialog-question", "--", head, body}
}

// variant writes a string as gdbus reads it, so that no title passes for another value.
func variant(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
