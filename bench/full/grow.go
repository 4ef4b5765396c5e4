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
// over the files that lie beside it and over the operations before it, the crowd over its callers, a preflight over the bytes.
func (c *course) grow() error {
	var files, callers, bytes []point
	for _, n := range []int{1_000, 10_000, 100_000} {
		p, err := c.servedFiles(fmt.Sprint("beside", n), n)
		if err != nil {
			return err
		}
		ms, err := c.editAt(p)
		p.d.Stop()
		if err != nil {
			return err
		}
		files = append(files, point{float64(n), ms})
	}
	operations, err := c.history()
	if err != nil {
		return err
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
	}{{"growth-files", "files in the workspace", "ms for an edit of 4 KiB", files}, {"growth-history", "operations before it", "ms for an edit of 4 KiB", operations},
		{"growth-callers", "callers at once", "calls a second, 4 reads to 1 edit", callers}, {"growth-bytes", "bytes of the file", "ms for a preflight with hash", bytes}} {
		if err := draw(filepath.Join(c.plots, p.file+".svg"), p.x, p.y, p.at); err != nil {
			return err
		}
		fmt.Println(p.file, p.at)
	}
	return nil
}

type point struct{ x, y float64 }

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
