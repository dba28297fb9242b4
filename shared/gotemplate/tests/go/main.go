// Executes the templates of its input with Go's text/template, over the data and with the functions
// that tests/differential.rs has too. Input: a JSON array of {text, missing}; output: an array of
// texts, those of errors behind "! ".
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/template"
)

type Version struct{ Pre string }

func (Version) Major() uint64            { return 7 }
func (Version) Has(text string) bool     { return text == "v1" }
func (Version) Join(a string, b ...any) string { return fmt.Sprint(append([]any{a}, b...)...) }
func (Version) String() string           { return "v7" }

type Pair struct {
	A int64
	B any
}

type Values map[string]interface{}

func (v Values) Keys() int { return len(v) }

func data() any {
	return map[string]interface{}{
		"a":       map[string]interface{}{"b": map[string]interface{}{"c": "deep"}, "n": 80.0, "z": nil},
		"nul":     nil,
		"s":       "text é <&>\n",
		"e":       "",
		"t":       true,
		"i":       3,
		"j":       int64(-4),
		"u":       uint8(9),
		"w":       uint64(1 << 63),
		"f":       2.5,
		"big":     1e6,
		"small":   1e-5,
		"cut":     "a\xffb",
		"l":       []interface{}{1, "x", nil, 2.0, []interface{}{true}},
		"strings": []string{"p", "q"},
		"ints":    []int{5, 6, 7},
		"empty":   []interface{}{},
		"none":    []interface{}(nil),
		"nomap":   map[string]interface{}(nil),
		"smap":    map[string]string{"k": "v"},
		"v":       Version{"rc"},
		"pair":    Pair{9, nil},
		"Values":  Values{"k": 1e6, "Keys": "no"},
		"bytes":   []byte("hi"),
	}
}

func main() {
	var input []struct{ Text, Missing string }
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		panic(err)
	}
	output := make([][]byte, 0, len(input))
	for _, in := range input {
		output = append(output, []byte(execute(in.Text, in.Missing)))
	}
	if err := json.NewEncoder(os.Stdout).Encode(output); err != nil {
		panic(err)
	}
}

func execute(text, missing string) (result string) {
	defer func() {
		if r := recover(); r != nil {
			result = fmt.Sprint("!! ", r)
		}
	}()
	t := template.New("set").Option("missingkey=" + missing)
	depth := 0
	t.Funcs(template.FuncMap{
		"list":   func(v ...interface{}) []interface{} { return v },
		"repeat": func(n int, s string) string { return strings.Repeat(s, n) },
		"half":   func(f float64) float64 { return f / 2 },
		"small":  func(n uint8) uint8 { return n },
		"flip":   func(b bool) bool { return !b },
		"keys":   func(m map[string]interface{}) int { return len(m) },
		"count":  func(l []interface{}) int { return len(l) },
		"joined": func(l []string) string { return strings.Join(l, "+") },
		"fail":   func(s string) (string, error) { return "", errors.New(s) },
		"one":    func() map[string]interface{} { return map[string]interface{}{"x": 1, "n": nil} },
		"none":   func() interface{} { return nil },
		"long":   func() int64 { return 12 },
		"include": func(name string, data interface{}) (string, error) {
			depth++
			defer func() { depth-- }()
			if depth > 30 {
				return "", errors.New("too many includes")
			}
			var out limited
			err := t.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
	})
	if _, err := t.New("t").Parse(text); err != nil {
		return "! " + err.Error()
	}
	var out limited
	if err := t.ExecuteTemplate(&out, "t", data()); err != nil {
		return "! " + err.Error()
	}
	return out.String()
}

// limited is an output that ends what would not end.
type limited struct{ strings.Builder }

func (l *limited) Write(text []byte) (int, error) {
	if l.Len() > 1<<20 {
		return 0, errors.New("TOO LONG")
	}
	return l.Builder.Write(text)
}
