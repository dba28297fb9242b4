package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/internal/core/adt"
	"cuelang.org/go/internal/core/runtime"
)

// mostNodes bounds a tree: sharing can expand to any size.
const mostNodes = 20_000

// node is a node of a tree as the README of the corpus describes it.
type node struct {
	Link        any    `json:"~,omitempty"` // a path; that of the root is ""
	Type        string `json:"t,omitempty"`
	Closed      int    `json:"c,omitempty"`
	Value       any    `json:"v,omitempty"`
	Code        string `json:"e,omitempty"`
	Message     string `json:"m,omitempty"`
	Unevaluated int    `json:"u,omitempty"`
	Fields      []arc  `json:"f,omitempty"`
}

// arc is a field of a node, written as [label, marker, node].
type arc struct {
	label, marker string
	node          *node
}

func (a arc) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{a.label, a.marker, a.node})
}

// writer makes a tree of an evaluated vertex. What it meets again becomes a link to where it was
// met first, unless that has no path: alternatives and arguments have none.
type writer struct {
	index    *runtime.Runtime
	written  map[*adt.Vertex]string
	detached []*adt.Vertex
	nodes    int
}

func (w *writer) vertex(v *adt.Vertex, path string) *node {
	w.nodes++
	if w.nodes > mostNodes {
		return &node{Unevaluated: 1}
	}
	v = v.DerefDisjunct().DerefValue()
	if first, ok := w.written[v]; ok && len(v.Arcs) > 0 {
		return &node{Link: first}
	}
	if len(w.detached) == 0 {
		w.written[v] = path
	} else if slices.Contains(w.detached, v) {
		return &node{Unevaluated: 1}
	} else {
		w.detached = append(w.detached, v)
		defer func() { w.detached = w.detached[:len(w.detached)-1] }()
	}
	if v.BaseValue == nil {
		return &node{Unevaluated: 1}
	}
	n := &node{Type: kind(v.BaseValue.Kind())}
	if k := v.BaseValue.Kind(); (k == adt.ListKind || k == adt.StructKind) &&
		(v.IsClosedList() || v.IsClosedStruct()) {
		n.Closed = 1
	}
	switch base := v.BaseValue.(type) {
	case *adt.Bottom:
		n.Code = base.Code.String()
		if !base.ChildError {
			n.Message = strings.TrimSpace(fmt.Sprint(base.Err))
			if base.Code == adt.CycleError || base.Code == adt.StructuralCycleError {
				return n
			}
		}
	case *adt.StructMarker, *adt.ListMarker:
	case adt.Value:
		n.Value = w.value(base)
	}
	for _, a := range v.Arcs {
		if a.ArcType == adt.ArcNotPresent || a.Label.IsLet() {
			continue
		}
		label := w.label(a.Label)
		below := label
		if path != "" {
			below = path + "." + label
		}
		n.Fields = append(n.Fields, arc{label, a.ArcType.Suffix(), w.vertex(a, below)})
	}
	return n
}

func (w *writer) label(f adt.Feature) string {
	if !f.IsHidden() {
		return f.SelectorString(w.index)
	}
	name := f.IdentString(w.index)
	if pkg := f.PkgID(w.index); pkg != "_" {
		name += "(" + pkg + ")"
	}
	return name
}

func kind(k adt.Kind) string {
	return strings.Trim(k.String(), "()")
}

// value is a value as the README of the corpus describes it.
func (w *writer) value(v adt.Node) any {
	switch x := v.(type) {
	case *adt.Num:
		return []any{"n", x.X.String()}
	case *adt.String:
		return []any{"s", x.Str}
	case *adt.Bytes:
		return []any{"b", base64.StdEncoding.EncodeToString(x.B)}
	case *adt.Bool:
		return []any{"t", x.B}
	case *adt.Null:
		return []any{"null"}
	case *adt.Top:
		return []any{"type", "_"}
	case *adt.BasicType:
		return []any{"type", kind(x.K)}
	case *adt.BoundValue:
		return []any{x.Op.String(), w.value(x.Value)}
	case *adt.Builtin:
		return []any{"call", w.function(x), []any{}}
	case *adt.BuiltinValidator:
		arguments := []any{}
		for _, a := range x.Args {
			arguments = append(arguments, w.argument(a))
		}
		return []any{"call", w.function(x.Builtin), arguments}
	case *adt.Conjunction:
		parts := []any{}
		for _, part := range x.Values {
			parts = append(parts, w.value(part))
		}
		return []any{"&", parts}
	case *adt.Disjunction:
		alternatives := []any{}
		for i, one := range x.Values {
			mark := 0
			if i < x.NumDefaults {
				mark = 1
			}
			alternatives = append(alternatives, []any{mark, w.alternative(one)})
		}
		return []any{"|", alternatives}
	case *adt.Bottom:
		return []any{"_|_"}
	case *adt.Vertex:
		return []any{"node", w.below(x)}
	}
	return []any{"expr", fmt.Sprintf("%T", v)}
}

func (w *writer) alternative(v adt.Value) *node {
	if vertex, ok := v.(*adt.Vertex); ok {
		return w.below(vertex)
	}
	n := &node{Type: kind(v.Kind())}
	if b, ok := v.(*adt.Bottom); ok {
		n.Code = b.Code.String()
		return n
	}
	n.Value = w.value(v)
	return n
}

// below writes a vertex that has no path.
func (w *writer) below(v *adt.Vertex) *node {
	w.detached = append(w.detached, nil)
	defer func() { w.detached = w.detached[:len(w.detached)-1] }()
	return w.vertex(v, "")
}

func (w *writer) function(b *adt.Builtin) string {
	if b.Package == 0 {
		return b.Name
	}
	return strings.Trim(w.label(b.Package), `"`) + "." + b.Name
}

// argument is an argument of a validator. Schemas are not looked into, lists show their scalars.
func (w *writer) argument(v adt.Value) any {
	vertex, ok := v.(*adt.Vertex)
	if !ok {
		return w.value(v)
	}
	vertex = vertex.DerefDisjunct().DerefValue()
	switch base := vertex.BaseValue.(type) {
	case *adt.ListMarker:
		list := &node{Type: "list"}
		if vertex.IsClosedList() {
			list.Closed = 1
		}
		for _, a := range vertex.Arcs {
			element := &node{Unevaluated: 1}
			if v, ok := a.DerefValue().BaseValue.(adt.Value); ok && v.Concreteness() == adt.Concrete {
				element = w.below(a)
			}
			list.Fields = append(list.Fields, arc{w.label(a.Label), "", element})
		}
		return []any{"node", list}
	case *adt.StructMarker, *adt.Bottom, nil:
		return []any{"expr", ""}
	case adt.Value:
		return w.value(base)
	}
	return []any{"expr", ""}
}
