// Answers what programs that know no Application make of one, line by line: an object on a line in, its answers on a line out.
// kstatus is the library that Flux, Helm and others judge by; the Lua health check and the CEL expressions are those of
// docs/gitops.md, evaluated by the interpreters that Argo CD and Flux have.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	text, err := os.ReadFile("../../docs/gitops.md")
	if err != nil {
		log.Fatal(err)
	}
	docs := string(text)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(lines.Bytes()); err != nil {
			log.Fatal(err)
		}
		result, err := status.Compute(object)
		if err != nil {
			log.Fatal(err)
		}
		answer, _ := json.Marshal(map[string]string{
			"status": result.Status.String(),
			"argo":   argo(docs, object.Object),
			"flux":   flux(docs, object.Object),
		})
		fmt.Println(string(answer))
	}
}

// The status that the health check of the documentation returns.
func argo(docs string, object map[string]any) string {
	script := between(docs, "-- argocd-health\n", "-- end")
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		log.Fatal(err)
	}
	return state.Get(-1).(*lua.LTable).RawGetString("status").String()
}

// The first expression that holds, in the order in which Flux asks.
func flux(docs string, object map[string]any) string {
	if object["metadata"].(map[string]any)["deletionTimestamp"] != nil {
		return "Terminating"
	}
	env, err := cel.NewEnv(cel.Variable("status", cel.DynType), cel.Variable("metadata", cel.DynType))
	if err != nil {
		log.Fatal(err)
	}
	for _, rule := range []struct{ key, means string }{{"inProgress", "InProgress"}, {"failed", "Failed"}, {"current", "Current"}} {
		text := strings.TrimSpace(between(docs, "    "+rule.key+": >-\n", "\n    "))
		tree, issues := env.Compile(strings.SplitN(text, "\n", 2)[0])
		if issues.Err() != nil {
			log.Fatal(issues.Err())
		}
		program, err := env.Program(tree)
		if err != nil {
			log.Fatal(err)
		}
		found, _, err := program.Eval(map[string]any{"status": object["status"], "metadata": object["metadata"]})
		if err != nil {
			log.Fatal(rule.key, ": ", err)
		}
		if found.Value() == true {
			return rule.means
		}
	}
	return "InProgress"
}

func between(text, begin, end string) string {
	_, rest, found := strings.Cut(text, begin)
	if !found {
		log.Fatalf("docs/gitops.md has no %q", begin)
	}
	rest = strings.TrimLeft(rest, " ")
	part, _, _ := strings.Cut(rest, end)
	return part
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case float64:
		return lua.LNumber(value)
	case int64:
		return lua.LNumber(value)
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(toLua(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}
