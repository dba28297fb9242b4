// Command oracle renders charts with Helm's own packages.
//
// It reads one JSON object a line, {"files": {path: text}, "values": {...}, ...}, and writes one
// line: the text of each rendered file, the manifests and hooks in the order of their installation,
// the files of crds/ and the notes; or an error and the stage that it comes from.
//
// With -bench it measures instead; see bench.go.
//
// A template that does not come to an end cannot be interrupted: after the time for a chart the
// answer is {"timeout": true} and the process ends, for the caller to start another.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path"
	"runtime/debug"
	"sort"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

type request struct {
	// Files of a chart directory, by path.
	Files map[string]string `json:"files"`
	// Or a packed chart.
	Chart string `json:"chart"`
	// The user's values, as YAML.
	Values  string  `json:"values"`
	Release release `json:"release"`
	// The cluster that is assumed.
	KubeVersion string   `json:"kubeVersion"`
	APIVersions []string `json:"apiVersions"`
}

type release struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	IsUpgrade bool   `json:"isUpgrade"`
	Revision  int    `json:"revision"`
}

type document struct {
	Source string `json:"source"`
	Text   string `json:"text"`
	// Of hooks: events, weight, policies.
	Events   []string `json:"events,omitempty"`
	Weight   int      `json:"weight,omitempty"`
	Policies []string `json:"policies,omitempty"`
}

type answer struct {
	Texts     map[string]string `json:"texts,omitempty"`
	Manifests []document        `json:"manifests,omitempty"`
	Hooks     []document        `json:"hooks,omitempty"`
	Crds      []document        `json:"crds,omitempty"`
	Notes     string            `json:"notes,omitempty"`
	Stage     string            `json:"stage,omitempty"`
	Error     string            `json:"error,omitempty"`
	Panic     string            `json:"panic,omitempty"`
	Timeout   bool              `json:"timeout,omitempty"`
}

func main() {
	limit := flag.Duration("limit", 3*time.Second, "time for each chart")
	bench := flag.Bool("bench", false, "measure instead; see bench.go")
	budget := flag.Duration("budget", 300*time.Millisecond, "with -bench: time for each measurement")
	renders := flag.Int("renders", 0, "with -bench: renders of each chart, for the peak of memory")
	keep := flag.Bool("keep", false, "with -renders: drop no chart before the end")
	flag.Parse()
	log.SetOutput(io.Discard)
	// A stack that grows without end kills the process; this makes it die sooner.
	debug.SetMaxStack(512 << 20)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<28)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(1)
		}
		if *bench {
			if err := out.Encode(measure(r, *budget, *renders, *keep)); err != nil {
				return
			}
			continue
		}
		a := within(*limit, func() answer { return render(r) })
		if err := out.Encode(a); err != nil || a.Timeout {
			return
		}
	}
	if *bench {
		fmt.Fprintln(os.Stdout, peak())
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

func failed(stage string, err error) answer {
	return answer{Stage: stage, Error: err.Error()}
}

func load(r request) (*chart.Chart, error) {
	if r.Chart != "" {
		return loader.Load(r.Chart)
	}
	names := make([]string, 0, len(r.Files))
	for name := range r.Files {
		names = append(names, name)
	}
	sort.Strings(names)
	files := make([]*loader.BufferedFile, 0, len(names))
	for _, name := range names {
		// As the loaders of directories and archives do.
		text := strings.TrimPrefix(r.Files[name], "\ufeff")
		files = append(files, &loader.BufferedFile{Name: name, Data: []byte(text)})
	}
	return loader.LoadFiles(files)
}

func capabilities(r request) (*chartutil.Capabilities, error) {
	version, err := chartutil.ParseKubeVersion(r.KubeVersion)
	if err != nil {
		return nil, err
	}
	// As the released command has it.
	helm := chartutil.DefaultCapabilities.HelmVersion
	helm.Version, helm.GoVersion = "v3.19.5", ""
	return &chartutil.Capabilities{
		KubeVersion: *version,
		APIVersions: chartutil.VersionSet(r.APIVersions),
		HelmVersion: helm,
	}, nil
}

// prepared does what comes before the templates, in the order of `helm template`.
func prepared(r request, ch *chart.Chart, values chartutil.Values) (chartutil.Values, string, error) {
	if ch.Metadata.Type == "library" {
		return nil, "type", fmt.Errorf("library charts are not installable")
	}
	if missing := missing(ch); missing != "" {
		return nil, "dependency", fmt.Errorf("missing in charts/ directory: %s", missing)
	}
	if err := chartutil.ProcessDependenciesWithMerge(ch, values); err != nil {
		return nil, "dependencies", err
	}
	caps, err := capabilities(r)
	if err != nil {
		return nil, "capabilities", err
	}
	options := chartutil.ReleaseOptions{
		Name:      r.Release.Name,
		Namespace: r.Release.Namespace,
		Revision:  r.Release.Revision,
		IsInstall: !r.Release.IsUpgrade,
		IsUpgrade: r.Release.IsUpgrade,
	}
	all, err := chartutil.ToRenderValuesWithSchemaValidation(ch, values, options, caps, false)
	if err != nil {
		return nil, "values", err
	}
	if wanted := ch.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, caps.KubeVersion.String()) {
		return nil, "kubeVersion", fmt.Errorf("chart requires kubeVersion: %s", wanted)
	}
	return all, "", nil
}

// missing names the dependencies that Chart.yaml lists and charts/ does not have.
func missing(ch *chart.Chart) string {
	there := map[string]bool{}
	for _, dependency := range ch.Dependencies() {
		there[dependency.Metadata.Name] = true
	}
	var names []string
	for _, dependency := range ch.Metadata.Dependencies {
		if !there[dependency.Name] {
			names = append(names, dependency.Name)
		}
	}
	return strings.Join(names, ", ")
}

func render(r request) answer {
	ch, err := load(r)
	if err != nil {
		return failed("chart", err)
	}
	user, err := chartutil.ReadValues([]byte(r.Values))
	if err != nil {
		return failed("values", err)
	}
	values, stage, err := prepared(r, ch, user)
	if err != nil {
		return failed(stage, err)
	}
	texts, err := engine.Render(ch, values)
	if err != nil {
		return failed("template", err)
	}
	a := answer{Texts: map[string]string{}}
	files := map[string]string{}
	for name, text := range texts {
		a.Texts[name] = text
		if !strings.HasSuffix(name, "NOTES.txt") {
			files[name] = text
		} else if name == path.Join(ch.Name(), "templates", "NOTES.txt") {
			a.Notes = text
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		a.Stage, a.Error = "manifest", err.Error()
		return a
	}
	for _, manifest := range manifests {
		a.Manifests = append(a.Manifests, document{Source: manifest.Name, Text: manifest.Content})
	}
	for _, hook := range hooks {
		d := document{Source: hook.Path, Text: hook.Manifest, Weight: hook.Weight}
		for _, event := range hook.Events {
			d.Events = append(d.Events, event.String())
		}
		for _, policy := range hook.DeletePolicies {
			d.Policies = append(d.Policies, policy.String())
		}
		a.Hooks = append(a.Hooks, d)
	}
	for _, crd := range ch.CRDObjects() {
		a.Crds = append(a.Crds, document{Source: crd.Filename, Text: string(crd.File.Data)})
	}
	return a
}
