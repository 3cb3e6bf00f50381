package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The plot has a row for each workload and a column for each measure: bars by messages in
// flight, a colour for each time that is added per call.
const (
	panelWidth, panelHeight = 250, 100
	marginLeft, marginTop   = 46, 78
	gapX, gapY              = 46, 52
)

var delayColours = []string{"#3b6ea5", "#7aa6c2", "#c9b458"}

// measurePlot is one column of the plot.
type measurePlot struct {
	title, limitText string
	limit            float64
	value            func(cell) float64
	bare             func(cell) float64 // a tick on the bar; nil for none
}

var measures = []measurePlot{
	{title: "throughput / bare loop's", limit: minSpeed, limitText: "wanted: 0.9 or more", value: func(c cell) float64 { return c.Speed }},
	{title: "client CPU a message / bare loop's", limit: maxCPU, limitText: "wanted: 1.3 or less", value: func(c cell) float64 { return c.CPU }},
	{title: "calls a message (tick: bare loop's)", value: func(c cell) float64 { return c.Ours.Calls }, bare: func(c cell) float64 { return c.Bare.Calls }},
}

// plot draws cells as SVG.
func plot(cells []cell) string {
	cells = slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return c.Missing != "" || c.Workload == "roundtrip" })
	var names []string
	var delays []time.Duration
	for _, c := range cells {
		if !slices.Contains(names, c.Workload) {
			names = append(names, c.Workload)
		}
		if !slices.Contains(delays, c.Delay) {
			delays = append(delays, c.Delay)
		}
	}
	width := marginLeft + len(measures)*(panelWidth+gapX)
	height := marginTop + max(1, len(names))*(panelHeight+gapY)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" fill="#333">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	for i, delay := range delays {
		x := marginLeft + i*110
		fmt.Fprintf(&b, `<rect x="%d" y="12" width="10" height="10" fill="%s"/><text x="%d" y="21">%s per call</text>`+"\n", x, colour(i), x+15, ms(delay))
	}
	for column, m := range measures {
		left := marginLeft + column*(panelWidth+gapX)
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-weight="bold" font-size="12">%s</text>`+"\n", left, marginTop-30, m.title)
		for row, name := range names {
			of := slices.DeleteFunc(slices.Clone(cells), func(c cell) bool { return c.Workload != name })
			m.panel(&b, left, marginTop+row*(panelHeight+gapY), name, of, delays)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// panel draws one workload.
func (m measurePlot) panel(b *strings.Builder, left, top int, name string, cells []cell, delays []time.Duration) {
	most := m.limit
	for _, c := range cells {
		most = max(most, m.value(c))
		if m.bare != nil {
			most = max(most, m.bare(c))
		}
	}
	step := niceStep(most)
	scale := panelHeight / (math.Ceil(most*1.02/step) * step)
	y := func(value float64) float64 { return float64(top+panelHeight) - value*scale }
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", left, top-6, name)
	for tick := 0.0; tick*scale <= panelHeight+0.5; tick += step {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end" fill="#777">%.4g</text>`+"\n", left, left+panelWidth, y(tick), y(tick), left-4, y(tick)+4, tick)
	}
	var levels []int
	for _, c := range cells {
		levels = append(levels, c.InFlight)
	}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	slot := float64(panelWidth) / float64(max(1, len(levels)))
	bar := min(20, slot/float64(len(delays)+1))
	for _, c := range cells {
		i := slices.Index(delays, c.Delay)
		x := float64(left) + (float64(slices.Index(levels, c.InFlight))+0.5)*slot + (float64(i)-float64(len(delays))/2)*bar
		value := m.value(c)
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s, %s, %s in flight: %.3g</title></rect>`+"\n",
			x, y(value), bar-1, value*scale, colour(i), c.Workload, ms(c.Delay), thousands(float64(c.InFlight)), value)
		if m.bare != nil {
			fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#000" stroke-width="1.5"/>`+"\n", x-1, x+bar, y(m.bare(c)), y(m.bare(c)))
		}
	}
	for i, level := range levels {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", float64(left)+(float64(i)+0.5)*slot, top+panelHeight+14, thousands(float64(level)))
	}
	if m.limit > 0 {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#b22" stroke-dasharray="4 3"><title>%s</title></line>`+"\n", left, left+panelWidth, y(m.limit), y(m.limit), m.limitText)
	}
}

func colour(i int) string { return delayColours[i%len(delayColours)] }

// niceStep is a distance of grid lines that gives two to five of them.
func niceStep(most float64) float64 {
	if most <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{0.2, 0.25, 0.5, 1} {
		if most/(step*part) <= 5 {
			return step * part
		}
	}
	return 2 * step
}
