// Command oracle answers CUE programs as cue's own two evaluators do.
//
// It reads one JSON object a line, {"files": {name: text}}, and writes two lines: the answer of the
// newer evaluator, then that of the older. An answer has what the records of the conformance corpus
// have: the evaluated tree, and the exported value or the class of the error. Packages of a module
// are the folders of the files; the program itself is the files without a folder.
//
// An evaluator that does not come to an end cannot be interrupted: after the time for a program the
// answer is {"timeout": true} and the process ends, for the caller to start another. An evaluator
// whose stack overflows ends the process without an answer.
//
// The module's path lies below that of cue, so that its internal packages can be imported: error
// codes and closedness are not part of the public interface.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strings"
	"time"

	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
	"cuelang.org/go/internal"
	"cuelang.org/go/internal/core/adt"
	"cuelang.org/go/internal/core/eval"
	"cuelang.org/go/internal/core/runtime"
	"cuelang.org/go/internal/cuedebug"
	"cuelang.org/go/internal/cueexperiment"
	"cuelang.org/go/internal/value"
	_ "cuelang.org/go/pkg"
)

type program struct {
	Files map[string]string `json:"files"`
}

// answer is what one evaluator makes of a program.
type answer struct {
	Tree    *node           `json:"tree,omitempty"`
	JSON    json.RawMessage `json:"json,omitempty"`
	Class   string          `json:"class,omitempty"`
	Error   string          `json:"error,omitempty"`
	Panic   string          `json:"panic,omitempty"`
	Timeout bool            `json:"timeout,omitempty"`
}

// evaluators are asked in this order.
var evaluators = []internal.EvaluatorVersion{internal.EvalV3, internal.EvalV2}

// module is the path of the module that the folders of a program are packages of.
const module = "test.example"

func main() {
	limit := flag.Duration("limit", 2*time.Second, "time for each evaluation of a program")
	flag.Parse()
	if err := errors.Join(cuedebug.Init(), cueexperiment.Init()); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
	// A stack that grows without end kills the process; this makes it die sooner.
	debug.SetMaxStack(256 << 20)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var p program
		if err := json.Unmarshal(in.Bytes(), &p); err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(1)
		}
		for _, version := range evaluators {
			a := within(*limit, func() answer { return evaluate(p, version) })
			if err := out.Encode(a); err != nil || a.Timeout {
				return
			}
		}
	}
}

func within(limit time.Duration, f func() answer) answer {
	done := make(chan answer, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- answer{Panic: fmt.Sprint(p)}
			}
		}()
		done <- f()
	}()
	select {
	case a := <-done:
		return a
	case <-time.After(limit):
		return answer{Timeout: true}
	}
}

func evaluate(p program, version internal.EvaluatorVersion) answer {
	instance, err := load(p, "")
	if err != nil {
		return answer{Class: "parse", Error: err.Error()}
	}
	r := runtime.NewWithSettings(version, cuedebug.Flags)
	experiments := cueexperiment.Flags
	// The older evaluator as KubeVela's chart sets it up: bounds that leave one value are that value.
	experiments.KeepValidators = version == internal.EvalV3
	r.SetGlobalExperiments(&experiments)
	root, failed := r.Build(nil, instance)
	if failed != nil {
		return answer{Class: "compile", Error: failed.Error()}
	}
	ctx := eval.NewContext(r, root)
	root.Finalize(ctx)
	w := writer{index: r, written: map[*adt.Vertex]string{}}
	a := answer{Tree: w.vertex(root, "")}
	if w.nodes > mostNodes {
		return answer{Timeout: true}
	}
	// As `cue export`.
	if b := adt.Validate(ctx, root, &adt.ValidateConfig{Concrete: true, Final: true}); b != nil {
		a.Class, a.Error = b.Code.String(), fmt.Sprint(b.Err)
		return a
	}
	text, err := value.Make(ctx, root).MarshalJSON()
	if err != nil {
		a.Class, a.Error = "incomplete", err.Error()
		return a
	}
	a.JSON = text
	return a
}

// load makes an instance of the files of a folder.
func load(p program, folder string) (*build.Instance, error) {
	context := build.NewContext(build.Loader(func(_ token.Pos, path string) *build.Instance {
		path, _, _ = strings.Cut(path, ":")
		below, ok := strings.CutPrefix(path, module+"/")
		if !ok {
			return nil
		}
		instance, err := load(p, below)
		if err != nil {
			return nil
		}
		return instance
	}))
	instance := context.NewInstance(folder, nil)
	if folder != "" {
		instance.ImportPath = module + "/" + folder
	}
	var names []string
	for name := range p.Files {
		dir, file := "", name
		if at := strings.LastIndex(name, "/"); at >= 0 {
			dir, file = name[:at], name[at+1:]
		}
		if dir == folder && strings.HasSuffix(file, ".cue") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no files in %q", folder)
	}
	sort.Strings(names)
	for _, name := range names {
		file, err := parser.ParseFile(name, p.Files[name], parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if err := instance.AddSyntax(file); err != nil {
			return nil, err
		}
		instance.PkgName = file.PackageName()
	}
	if err := instance.Complete(); err != nil {
		return nil, err
	}
	return instance, nil
}
