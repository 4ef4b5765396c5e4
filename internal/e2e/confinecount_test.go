//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// confined counts what came of one operation.
type confined struct {
	total, done, refused, held int

	took   time.Duration // of all
	lately confinedTime  // since it was last told
}

type confinedTime struct {
	n    int
	took time.Duration
}

func (c *confinement) count(name string, done, held bool, began time.Time) {
	name = operationOf(name)
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.per[name]
	if n == nil {
		n = &confined{}
		c.per[name] = n
	}
	c.total++
	n.total++
	n.held += int(b2i(held))
	n.took += took
	n.lately.n++
	n.lately.took += took
	if done {
		c.done++
		n.done++
	} else {
		n.refused++
	}
}

func (c *confinement) escaped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.escapes++
}

// telling says every half minute how far a long run is and what a call takes by now; it gives
// what ends it.
func (c *confinement) telling() func() {
	began, end := time.Now(), make(chan bool)
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for before := 0; ; {
			select {
			case <-end:
				return
			case <-time.After(30 * time.Second):
				before = c.tell(time.Since(began), before)
			}
		}
	}()
	return func() { close(end); <-ended }
}

func (c *confinement) tell(after time.Duration, before int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var each []string
	for _, name := range slices.Sorted(maps.Keys(c.per)) {
		if l := &c.per[name].lately; l.n > 0 {
			each = append(each, fmt.Sprintf("%s %.2f", name, l.took.Seconds()*1000/float64(l.n)))
			*l = confinedTime{}
		}
	}
	c.t.Logf("after %v: %d calls, %d done, %d escapes, %d not taken back, %d a second; milliseconds: %s", after.Round(time.Second), c.total, c.done, c.escapes, c.stayed, (c.total-before)/30, strings.Join(each, ", "))
	return c.total
}

func (c *confinement) table() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	tab := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "operation\tcalls\tdone\trefused\theld for a person first\tmilliseconds each")
	for _, name := range slices.Sorted(maps.Keys(c.per)) {
		n := c.per[name]
		fmt.Fprintf(tab, "%s\t%d\t%d\t%d\t%d\t%.2f\n", name, n.total, n.done, n.refused, n.held, n.took.Seconds()*1000/float64(n.total))
	}
	tab.Flush()
	fmt.Fprintf(&out, "changes that could not be taken back: %d\n", c.stayed)
	fmt.Fprintf(&out, "confinement: %d attempts, %d done, %d escapes; turns: %d folder and link, %d file and link, %d mounts",
		c.total, c.done, c.escapes, c.turns[0].Load(), c.turns[1].Load(), c.turns[2].Load())
	return out.String()
}
