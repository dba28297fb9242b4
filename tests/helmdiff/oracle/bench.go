package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// measurement is what one chart costs. Load is reading and unpacking the archive, render is
// everything from dependencies to the texts of all templates.
type measurement struct {
	Error       string  `json:"error,omitempty"`
	Bytes       int     `json:"bytes"`
	LoadNs      float64 `json:"load_ns"`
	RenderNs    float64 `json:"render_ns"`
	LoadBytes   uint64  `json:"load_bytes"`
	RenderBytes uint64  `json:"render_bytes"`
}

// cpu is the CPU time of the process, also that of the garbage collector's threads.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

// spent repeats an action until the budget is used up: CPU time and bytes of one time.
func spent(budget time.Duration, renders int, action func()) (float64, uint64) {
	start, before, count := cpu(), allocated(), 0
	end := time.Now().Add(budget)
	for count == 0 || count < renders || (renders == 0 && time.Now().Before(end)) {
		action()
		count++
	}
	return float64(cpu()-start) / float64(count), (allocated() - before) / uint64(count)
}

// kept are charts that stay in memory until the end.
var kept []*chart.Chart

func measure(r request, budget time.Duration, renders int, keep bool) measurement {
	var m measurement
	var texts map[string]string
	user, err := chartutil.ReadValues([]byte(r.Values))
	if err != nil {
		m.Error = err.Error()
		return m
	}
	// Helm's preparation changes the chart, so each render needs one of its own.
	once := func() error {
		ch, err := load(r)
		if err != nil {
			return err
		}
		values, _, err := prepared(r, ch, user)
		if err != nil {
			return err
		}
		texts, err = engine.Render(ch, values)
		return err
	}
	if err := once(); err != nil {
		m.Error = err.Error()
		return m
	}
	for _, text := range texts {
		m.Bytes += len(text)
	}
	if renders > 0 {
		if ch, err := load(r); keep && err == nil {
			kept = append(kept, ch)
		}
		spent(0, renders-1, func() { _ = once() })
		return m
	}
	var loaded *chart.Chart
	m.LoadNs, m.LoadBytes = spent(budget, 0, func() { loaded, _ = load(r) })
	_ = loaded
	all, bytes := spent(2*budget, 0, func() { _ = once() })
	m.RenderNs, m.RenderBytes = max(all-m.LoadNs, 0), bytes-min(bytes, m.LoadBytes)
	return m
}

// peak is the largest resident set of the process, in KiB.
func peak() int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			return kib
		}
	}
	return 0
}
