package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/store"
)

var listings = []test{
	{"SearchWithoutQueryReturnsNewest", func(w *fixture) {
		for i := range 15 {
			w.put(fmt.Sprint("a/", i%3), fmt.Sprint(i), object{"i": i})
		}
		w.put("b", "x", object{})
		w.put("a/0", "3", object{"i": 3}) // now the newest
		w.finds(w, "a", nil, "5 6 7 8 9 10 11 12 13 14 3"[2:])
		w.finds(w, "a", &store.SearchOptions{Limit: 3}, "13 14 3")
		w.finds(w, "a", &store.SearchOptions{Limit: 3, Offset: 2}, "11 12 13")
		w.finds(w, "a", &store.SearchOptions{Limit: 3, Offset: 13}, "0 1")
		w.finds(w, "a", &store.SearchOptions{Limit: 3, Offset: 15}, "")
		w.finds(w, "a/2", &store.SearchOptions{Limit: 100}, "2 5 8 11 14")
		for _, item := range w.finds(w, "b", nil, "x") {
			if item.Score != 0 || item.Explanation != nil {
				w.Errorf("got score %v and explanation %v", item.Score, item.Explanation)
			}
		}
	}},
	{"LimitAndOffsetApplyAfterFilter", func(w *fixture) {
		for i := range 20 {
			w.put("a", fmt.Sprint(i), object{"even": i%2 == 0})
		}
		even := store.Eq("even", true)
		w.finds(w, "a", &store.SearchOptions{Filter: even, Limit: 3}, "14 16 18")
		w.finds(w, "a", &store.SearchOptions{Filter: even, Limit: 3, Offset: 8}, "0 2")
	}},
	{"Filters", func(w *fixture) {
		values := map[string]string{
			"int":    `{"v": 10, "o": {"x": 1, "y": {"z": [1, 2]}}}`,
			"float":  `{"v": 9.5}`,
			"exp":    `{"v": 1e1}`,
			"big":    `{"v": 9007199254740993}`,
			"bigger": `{"v": 9007199254740994.0}`,
			"huge":   `{"v": 1e999999999}`,
			"neg":    `{"v": -0.5}`,
			"text":   `{"v": "10"}`,
			"word":   `{"v": "é\t\"\\<"}`,
			"true":   `{"v": true}`,
			"null":   `{"v": null}`,
			"none":   `{"w": 10, "a.b": 1, "": 2}`,
			"list":   `{"v": [1, "a", {"k": 1.0}]}`,
			"object": `{"v": {"b": 1, "a": [2]}}`,
			"quote":  `{"v": "it's 100%_"}`,
		}
		for key, value := range values {
			w.put("a", key, json.RawMessage(value), store.PutOptions{Meta: object{"key": key, "n": len(key)}})
		}
		for name, test := range map[string]struct {
			filter store.Filter
			want   string
		}{
			"eq number":       {store.Eq("v", 10), "exp int"},
			"eq float":        {store.Eq("v", 9.5), "float"},
			"eq big":          {store.Eq("v", json.Number("9007199254740993")), "big"},
			"eq text":         {store.Eq("v", "10"), "text"},
			"eq escapes":      {store.Eq("v", "é\t\"\\<"), "word"},
			"eq quote":        {store.Eq("v", "it's 100%_"), "quote"},
			"eq true":         {store.Eq("v", true), "true"},
			"eq null":         {store.Eq("v", nil), "null"},
			"eq list":         {store.Eq("v", []any{1.0, "a", object{"k": 1}}), "list"},
			"eq object":       {store.Eq("v", object{"a": []int{2}, "b": 1}), "object"},
			"eq part":         {store.Eq("v", object{"b": 1}), ""},
			"ne":              {store.Ne("v", 10), "big bigger float huge list neg none null object quote text true word"},
			"gt":              {store.Gt("v", 10), "big bigger huge"},
			"gt exactly":      {store.Gt("v", json.Number("9007199254740993")), "bigger huge"},
			"gte":             {store.Gte("v", 10), "big bigger exp huge int"},
			"lt":              {store.Lt("v", 9.6), "float neg"},
			"lte":             {store.Lte("v", 9.5), "float neg"},
			"lt zero":         {store.Lt("v", 0), "neg"},
			"gt text":         {store.Gt("v", "10"), "quote word"},
			"lt text":         {store.Lt("v", "2"), "text"},
			"in":              {store.In[any]("v", 10, "10", nil), "exp int null text"},
			"in nothing":      {store.In[int]("v"), ""},
			"exists":          {store.Exists("v"), "big bigger exp float huge int list neg null object quote text true word"},
			"not exists":      {store.Not(store.Exists("v")), "none"},
			"nested":          {store.Eq("o.x", 1), "int"},
			"deep":            {store.Eq("o.y.z.1", 2), "int"},
			"no index":        {store.Exists("o.y.z.-1"), ""},
			"index of object": {store.Eq("v.2.k", 1), "list"},
			"escaped dot":     {store.Eq(`a\.b`, 1), "none"},
			"unescaped dot":   {store.Eq(`a.b`, 1), ""},
			"through a text":  {store.Exists("v.x"), ""},
			"empty key":       {store.Filter{Op: store.OpEq, Path: []string{""}, Values: []json.RawMessage{json.RawMessage("2")}}, "none"},
			"and":             {store.And(store.Gt("v", 9), store.Lt("v", 11)), "exp float int"},
			"or":              {store.Or(store.Eq("v", true), store.Eq("w", 10)), "none true"},
			"not":             {store.Not(store.Or(store.Exists("v"), store.Exists("x"))), "none"},
			"and of none":     {store.And(), "big bigger exp float huge int list neg none null object quote text true word"},
			"or of none":      {store.Or(), ""},
			"meta":            {store.Meta(store.Eq("key", "int")), "int"},
			"meta and value":  {store.And(store.Meta(store.Lt("n", 4)), store.Gt("v", 0)), "big exp int"},
			"not meta":        {store.Not(store.Meta(store.Gt("n", 3))), "big exp int neg"},
			"wild % in path":  {store.Exists("%"), ""},
			"a quote in path": {store.Exists(`v"'`), ""},
			"NUL in a value":  {store.Eq("v", "\x00"), ""},
		} {
			items := must(w.Search(w.Context(), nil, &store.SearchOptions{Filter: test.filter, Limit: 100}))(w)
			found := names(items)
			for i := range found {
				found[i] = strings.TrimPrefix(found[i], "a/")
			}
			slices.Sort(found)
			want(w, name, found, strings.Fields(test.want))
		}
	}},
	{"FiltersApplyToCurrentVersion", func(w *fixture) {
		w.put("a", "k", object{"v": 1})
		w.put("a", "k", object{"v": 2})
		w.finds(w, "a", &store.SearchOptions{Filter: store.Eq("v", 1)}, "")
		w.finds(w, "a", &store.SearchOptions{Filter: store.Eq("v", 2)}, "k")
	}},
}

var namespaces = []test{
	{"NamespacesAreSortedAndUnique", func(w *fixture) {
		for _, at := range []string{"b", "a/c", "a/b/c", "a/b", "a/c", "ab", "a/b.c"} {
			w.put(at, "k", object{})
			w.put(at, "l", object{})
		}
		w.put("gone", "k", object{})
		w.delete("gone", "k")
		list := func(o store.NamespacesOptions) (all []string) {
			for _, n := range must(w.Namespaces(w.Context(), &o))(w) {
				all = append(all, strings.Join(n, "/"))
			}
			return all
		}
		for name, test := range map[string]struct {
			o    store.NamespacesOptions
			want string
		}{
			"all":               {store.NamespacesOptions{}, "a/b a/b/c a/b.c a/c ab b"},
			"prefix":            {store.NamespacesOptions{Prefix: ns("a")}, "a/b a/b/c a/b.c a/c"},
			"whole":             {store.NamespacesOptions{Prefix: ns("a/b")}, "a/b a/b/c"},
			"wild":              {store.NamespacesOptions{Prefix: ns("*/c")}, "a/c"},
			"wild in the end":   {store.NamespacesOptions{Prefix: ns("a/*")}, "a/b a/b/c a/b.c a/c"},
			"suffix":            {store.NamespacesOptions{Suffix: ns("c")}, "a/b/c a/c"},
			"wild suffix":       {store.NamespacesOptions{Suffix: ns("a/*")}, "a/b a/b.c a/c"},
			"both":              {store.NamespacesOptions{Prefix: ns("a/b"), Suffix: ns("b/c")}, "a/b/c"},
			"overlapping":       {store.NamespacesOptions{Prefix: ns("a/b"), Suffix: ns("a/b")}, "a/b"},
			"too long":          {store.NamespacesOptions{Prefix: ns("a/b/c/d")}, ""},
			"depth 1":           {store.NamespacesOptions{MaxDepth: 1}, "a ab b"},
			"depth 2":           {store.NamespacesOptions{MaxDepth: 2, Prefix: ns("a")}, "a/b a/b.c a/c"},
			"limit":             {store.NamespacesOptions{Limit: 2}, "a/b a/b/c"},
			"offset":            {store.NamespacesOptions{Limit: 2, Offset: 4}, "ab b"},
			"depth before page": {store.NamespacesOptions{MaxDepth: 1, Limit: 1, Offset: 1}, "ab"},
			"past the end":      {store.NamespacesOptions{Offset: 9}, ""},
		} {
			want(w, name, strings.Join(list(test.o), " "), test.want)
		}
	}},
}
