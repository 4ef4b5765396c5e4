package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAttack(t *testing.T) {
	t.Parallel()
	d := &daemon{t: t, State: shortDir(t)}
	exit, out, errs := d.cli("doctor", "--attack", "--json")
	var got struct {
		Ways []string `json:"ways"`
		Rows []struct {
			Pattern string            `json:"pattern"`
			Ways    map[string]string `json:"ways"`
		} `json:"rows"`
		Through int `json:"got_through"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || exit != 0 {
		t.Fatalf("exit %d, %v: %.2000s %s", exit, err, out, errs)
	}
	t.Run("C78, C82, C86, S106 (part) doctor --attack: no protected pattern gives way, and each way was really tried", func(t *testing.T) {
		if got.Through != 0 || len(got.Rows) < 100 || len(got.Ways) != 9 {
			t.Fatalf("%d rows, %d ways, %d got through", len(got.Rows), len(got.Ways), got.Through)
		}
		for _, r := range got.Rows {
			for _, way := range got.Ways {
				if end := r.Ways[way]; end != "held" && !strings.HasPrefix(end, "refused") {
					t.Errorf("%s by %s: %q", r.Pattern, way, end)
				}
			}
			for way, want := range map[string]string{"tool": "held", "hard link": "refused: hard_linked", "undo": "held", "released command": "refused: by the confinement"} {
				if r.Ways[way] != want {
					t.Errorf("%s by %s: %q, want %s", r.Pattern, way, r.Ways[way], want)
				}
			}
		}
	})
}
