package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	chart "github.com/wcharczuk/go-chart/v2"

	"holdpoint/bench/drive"
)

// grow measures how costs grow and draws each as a plot over a logarithmic scale: an edit
// over the files that lie beside it, the crowd over its callers, a preflight over the bytes.
func (c *course) grow() error {
	var files, callers, bytes []point
	for _, n := range []int{1_000, 10_000, 100_000} {
		ms, err := c.editAmong(n)
		if err != nil {
			return err
		}
		files = append(files, point{float64(n), ms})
	}
	if err := c.crowdFiles(0); err != nil {
		return err
	}
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64} {
		began := time.Now()
		if err := c.crowd(n, 640/n*n); err != nil {
			return err
		}
		callers = append(callers, point{float64(n), float64(640/n*n) / time.Since(began).Seconds()})
	}
	for size := int64(4 << 10); size <= c.big; size *= 8 {
		path := filepath.Join(c.root, "sized")
		if err := c.sh(".", fmt.Sprintf("head -c %d big >sized", size)); err != nil {
			return err
		}
		var s drive.Samples
		for i := range 5 {
			if err := touch(path, i); err != nil {
				return err
			}
			began := time.Now()
			if err := c.preflight([]string{"sized"}, 0); err != nil {
				return err
			}
			s = append(s, float64(time.Since(began).Nanoseconds())/1e6)
		}
		bytes = append(bytes, point{float64(size), s.At(.5)})
	}
	for _, p := range []struct {
		file, x, y string
		at         []point
	}{{"growth-files", "files in the workspace", "ms for an edit of 4 KiB", files}, {"growth-callers", "callers at once", "calls a second, 4 reads to 1 edit", callers}, {"growth-bytes", "bytes of the file", "ms for a preflight with hash", bytes}} {
		if err := draw(filepath.Join(c.plots, p.file+".svg"), p.x, p.y, p.at); err != nil {
			return err
		}
		fmt.Println(p.file, p.at)
	}
	return nil
}

type point struct{ x, y float64 }

// editAmong gives the median of an edit in a workspace of n files with a daemon of its own.
func (c *course) editAmong(n int) (float64, error) {
	root := filepath.Join(c.work, fmt.Sprint("among", n))
	for i := range n {
		dir := filepath.Join(root, fmt.Sprintf("d%03d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return 0, err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%06d", i)), []byte("x\n"), 0o644); err != nil {
			return 0, err
		}
	}
	d, err := drive.StartDaemon(c.binary, root, filepath.Join(c.work, fmt.Sprint("state-among", n)))
	if err != nil {
		return 0, err
	}
	defer d.Stop()
	s := c.editBy(named{d, "among"}, root, 4<<10)
	var took drive.Samples
	for i := range 60 {
		if err := s.before(i); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := s.do(i); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e6)
	}
	return took.At(.5), nil
}

func draw(to, x, y string, at []point) error {
	var xs, ys []float64
	var ticks []chart.Tick
	most := 0.0
	for i, p := range at {
		xs, ys, most = append(xs, float64(i)), append(ys, p.y), max(most, p.y)
		ticks = append(ticks, chart.Tick{Value: float64(i), Label: fmt.Sprintf("%.6g", p.x)})
	}
	g := chart.Chart{Width: 640, Height: 360, XAxis: chart.XAxis{Name: x, Ticks: ticks},
		YAxis:  chart.YAxis{Name: y, Range: &chart.ContinuousRange{Min: 0, Max: most * 1.1}},
		Series: []chart.Series{chart.ContinuousSeries{XValues: xs, YValues: ys, Style: chart.Style{StrokeWidth: 2, DotWidth: 3, StrokeColor: chart.ColorBlue, DotColor: chart.ColorBlue}}}}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	return g.Render(chart.SVG, f)
}
