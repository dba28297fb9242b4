// Command gocue times CUE's own evaluators on KubeVela templates.
//
// It reads definitions and inputs of the conformance material, renders each definition with each of
// its inputs, and prints one JSON object a line: the input's id, CPU nanoseconds of a warm render
// (the template is compiled, only parameter and context are new) and of a cold one (text to
// objects), bytes allocated by each, and what came out, so that the caller can compare. Its
// counterpart for our evaluator is tests/bench/rustcue.
//
// usage: gocue [-n 10000 [-cold | -fresh 100]] [-budget 200ms] [-only NAME] DEFINITIONS.jsonl INPUTS.jsonl
//
// CUE_EXPERIMENT selects the evaluator, as in the reference: evalv3=0 is the older one.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
)

type definition struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	Imports    []string `json:"imports"`
	ImportText string   `json:"import_text"`
	Template   string   `json:"template"`
}

type input struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind"`
	Definition string          `json:"definition"`
	Name       string          `json:"name"`
	Properties json.RawMessage `json:"properties"`
}

type result struct {
	ID        string            `json:"id"`
	WarmNs    int64             `json:"warm_ns"`
	ColdNs    int64             `json:"cold_ns"`
	WarmBytes uint64            `json:"warm_bytes"`
	ColdBytes uint64            `json:"cold_bytes"`
	Objects   map[string]string `json:"objects,omitempty"`
	Error     string            `json:"error,omitempty"`
}

// paths are what a controller reads of a rendered template.
var paths = []string{"output", "outputs", "patch"}

// lines reads the lines of a file that are wanted: what is measured is not the memory of the rest.
func lines[T any](name string, wanted func(T) bool) ([]T, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<26)
	var all []T
	for scanner.Scan() {
		var one T
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			return nil, err
		}
		if wanted(one) {
			all = append(all, one)
		}
	}
	return all, scanner.Err()
}

func objects(v cue.Value) (map[string]string, error) {
	out := map[string]string{}
	for _, path := range paths {
		field := v.LookupPath(cue.ParsePath(path))
		if !field.Exists() {
			continue
		}
		text, err := field.MarshalJSON()
		if err != nil {
			return nil, err
		}
		out[path] = string(text)
	}
	return out, nil
}

func contextOf(in input) string {
	name, _ := json.Marshal(in.Name)
	return fmt.Sprintf(`{"name": %s, "namespace": "default", "appName": "app", "appRevision": "app-v1", `+
		`"appRevisionNum": 1, "revision": "%s-v1", "output": {}, "outputs": {}, "cluster": "local", `+
		`"clusterVersion": {"major": "1", "minor": 30, "gitVersion": "v1.30.0", "platform": "linux/amd64"}}`,
		name, in.Name)
}

func cold(d definition, in input) (map[string]string, error) {
	text := d.Template + "\nparameter: " + string(in.Properties) + "\ncontext: " + contextOf(in) + "\n"
	if len(d.Imports) > 0 {
		text = header(d) + text
	}
	v := cuecontext.New().CompileString(text)
	if v.Err() != nil {
		return nil, v.Err()
	}
	return objects(v)
}

func header(d definition) string {
	var b strings.Builder
	for _, path := range d.Imports {
		fmt.Fprintf(&b, "import %q\n", path)
	}
	return b.String()
}

// warm parses and compiles nothing but data.
func warm(ctx *cue.Context, template cue.Value, in input) (map[string]string, error) {
	// JSON is CUE; decoding it to Go values would turn integers into floats.
	parameter := ctx.CompileBytes(in.Properties)
	context := ctx.CompileString(contextOf(in))
	v := template.FillPath(cue.ParsePath("parameter"), parameter)
	v = v.FillPath(cue.ParsePath("context"), context)
	return objects(v)
}

// batches is how often each time is measured.
const batches = 5

// cpu is the time this process has been running, on all threads: what others do meanwhile does not
// count, what the garbage collector does for us does.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// measure runs f in batches and returns the CPU time of one run in the best of them and the bytes
// of one run. Before each batch fresh makes anew what f must not grow without end.
func measure(budget time.Duration, fresh, f func()) (int64, uint64) {
	var before, after runtime.MemStats
	fresh()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	best := time.Duration(1<<62 - 1)
	end := time.Now().Add(4 * budget)
	for n, done := 1, 0; done < batches; {
		fresh()
		start := cpu()
		for i := 0; i < n; i++ {
			f()
		}
		spent := cpu() - start
		if spent < budget/batches && time.Now().Before(end) {
			n *= 2
			continue
		}
		if per := spent / time.Duration(n); per < best {
			best = per
		}
		done++
		if time.Now().After(end) {
			break
		}
	}
	return best.Nanoseconds(), after.TotalAlloc - before.TotalAlloc
}

func run(d definition, in input, budget time.Duration) (r result) {
	r.ID = in.ID
	defer func() {
		if p := recover(); p != nil {
			r.Error = fmt.Sprint("panic: ", p)
		}
	}()
	found, err := cold(d, in)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	r.Objects = found
	r.ColdNs, r.ColdBytes = measure(budget, func() {}, func() { cold(d, in) })
	source := header(d) + d.Template + "\ncontext: _\n"
	ctx := cuecontext.New()
	template := ctx.CompileString(source)
	if template.Err() != nil {
		r.Error = "warm: " + template.Err().Error()
		return r
	}
	if _, err := warm(ctx, template, in); err != nil {
		r.Error = "warm: " + err.Error()
		return r
	}
	// A context keeps everything that was ever evaluated in it.
	r.WarmNs, r.WarmBytes = measure(budget, func() {
		ctx = cuecontext.New()
		template = ctx.CompileString(source)
	}, func() { warm(ctx, template, in) })
	return r
}

func main() {
	budget := flag.Duration("budget", 100*time.Millisecond, "time for each measurement")
	renders := flag.Int("n", 0, "instead: render so many times and print the peak memory in KiB, and that without the pages of files")
	fresh := flag.Int("fresh", 0, "with -n: compile a template in a new context after so many renders; 0: never")
	always := flag.Bool("cold", false, "with -n: from text to objects each time")
	only := flag.String("only", "", "only this definition")
	flag.Parse()
	definitions, err := lines(flag.Arg(0), func(d definition) bool { return *only == "" || d.Name == *only })
	if err == nil {
		var inputs []input
		if inputs, err = lines(flag.Arg(1), func(in input) bool { return *only == "" || in.Definition == *only }); err == nil {
			err = all(definitions, inputs, *budget, *renders, *fresh, *always)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gocue:", err)
		os.Exit(1)
	}
}

// peak is the most memory this process has had, in kibibytes: all that was resident, and that without
// the pages of files, which are the program's own code and libraries.
func peak() string {
	status, _ := os.ReadFile("/proc/self/status")
	of := func(key string) (kib int) {
		for _, line := range strings.Split(string(status), "\n") {
			if rest, ok := strings.CutPrefix(line, key); ok {
				fmt.Sscan(rest, &kib)
			}
		}
		return kib
	}
	all := of("VmHWM:")
	return fmt.Sprint(all, " ", all-of("RssFile:"))
}

// kept is a compiled template and how often it was rendered.
type kept struct {
	ctx      *cue.Context
	template cue.Value
	renders  int
}

// many renders all inputs in turn, with every template compiled and kept. A context keeps what was
// evaluated in it: with fresh > 0 a template is compiled in a new one after so many renders.
func many(definitions map[string]definition, inputs []input, renders, fresh int, always bool) {
	templates := map[string]*kept{}
	for done := 0; done < renders; done++ {
		in := inputs[done%len(inputs)]
		name := in.Kind + "/" + in.Definition
		d := definitions[name]
		if always {
			attempt(func() { cold(d, in) })
			continue
		}
		k := templates[name]
		if k == nil || (fresh > 0 && k.renders == fresh) {
			ctx := cuecontext.New()
			k = &kept{ctx: ctx, template: ctx.CompileString(header(d) + d.Template + "\ncontext: _\n")}
			templates[name] = k
		}
		k.renders++
		attempt(func() { warm(k.ctx, k.template, in) })
	}
	fmt.Println(peak())
}

// attempt survives a panic of the evaluator: what fails is seen by its line in the other mode.
func attempt(f func()) {
	defer func() { recover() }()
	f()
}

func all(definitions []definition, inputs []input, budget time.Duration, renders, fresh int, always bool) error {
	byName := map[string]definition{}
	for _, d := range definitions {
		byName[d.Type+"/"+d.Name] = d
	}
	var known []input
	for _, in := range inputs {
		if _, ok := byName[in.Kind+"/"+in.Definition]; ok {
			known = append(known, in)
		}
	}
	if renders > 0 {
		if len(known) > 0 {
			many(byName, known, renders, fresh, always)
		}
		return nil
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, in := range known {
		if err := out.Encode(run(byName[in.Kind+"/"+in.Definition], in, budget)); err != nil {
			return err
		}
	}
	return nil
}
