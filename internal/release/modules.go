package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is a linked module and the directory of its source.
type module struct {
	Path, Version, Dir string
}

// modulesOf returns the modules that a program links, the standard library first.
func modulesOf(ctx context.Context, program string) ([]module, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	root, err := output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs, err := sources(ctx)
	if err != nil {
		return nil, err
	}
	all := []module{{"std", info.GoVersion, root}, {info.Main.Path, "", dirs[info.Main.Path]}}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, fmt.Errorf("module %s is replaced: a release must not replace modules", d.Path)
		}
		all = append(all, module{d.Path, d.Version, dirs[d.Path]})
	}
	return all, nil
}

// sources returns the directories of all modules, by module path.
func sources(ctx context.Context) (map[string]string, error) {
	listed, err := output(ctx, "go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}", "all")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for line := range strings.Lines(listed) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		dirs[path] = dir
	}
	return dirs, nil
}

// licenseFile matches the names of license and notice files.
var licenseFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice)([-._].*)?$`)

// licenses returns the texts of a module's license and notices. It returns an error if
// there are none, because such a module may not be redistributed.
func (m module) licenses() (texts []string, err error) {
	if m.Dir == "" {
		return nil, fmt.Errorf("module %s: source not found: run go mod download", m.Path)
	}
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !licenseFile.MatchString(e.Name()) || e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimSpace(string(text)))
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("module %s %s has no license", m.Path, m.Version)
	}
	return texts, nil
}

// noticesOf returns the licenses of all modules that a program links.
func noticesOf(linked []module) ([]byte, error) {
	var b bytes.Buffer
	for _, m := range linked {
		texts, err := m.licenses()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "==== %s %s\n\n%s\n\n", m.Path, m.Version, strings.Join(texts, "\n\n"))
	}
	return b.Bytes(), nil
}

// kinds lists phrases that identify licenses, in the order in which they are checked.
var kinds = []struct{ id, phrase string }{
	{"Apache-2.0", "Apache License"},
	{"MPL-2.0", "Mozilla Public License"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"BSD-3-Clause", "Neither the name of"},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
	{"ISC", "Permission to use, copy, modify, and"},
}

// kind returns the SPDX identifier of a module's license.
func (m module) kind() (string, error) {
	texts, err := m.licenses()
	if err != nil {
		return "", err
	}
	all := strings.Join(strings.Fields(strings.Join(texts, "\n")), " ")
	for _, k := range kinds {
		if strings.Contains(all, k.phrase) {
			return k.id, nil
		}
	}
	return "", fmt.Errorf("module %s %s: unknown license: review it and add it to the list", m.Path, m.Version)
}

// spdx lists the modules of a release in SPDX 2.3 format.
func spdx(r *release) ([]byte, error) {
	type reference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	type pack struct {
		ID        string      `json:"SPDXID"`
		Name      string      `json:"name"`
		Version   string      `json:"versionInfo"`
		Download  string      `json:"downloadLocation"`
		Concluded string      `json:"licenseConcluded"`
		Declared  string      `json:"licenseDeclared"`
		Copyright string      `json:"copyrightText"`
		Analyzed  bool        `json:"filesAnalyzed"`
		Refs      []reference `json:"externalRefs"`
	}
	type relation struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
	const document, main = "SPDXRef-DOCUMENT", "github.com/treadle-go/treadle"
	id := func(path string) string {
		return "SPDXRef-" + regexp.MustCompile(`[^A-Za-z0-9.-]`).ReplaceAllString(path, "-")
	}
	packs, relations := []pack{}, []relation{{document, "DESCRIBES", id(main)}}
	for _, path := range slices.Sorted(maps.Keys(r.modules)) {
		m := r.modules[path]
		kind, err := m.kind()
		if err != nil {
			return nil, err
		}
		version := cmp.Or(m.Version, r.version)
		packs = append(packs, pack{id(path), path, version, "NOASSERTION", kind, kind, "NOASSERTION", false,
			[]reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}})
		if path != main {
			relations = append(relations, relation{id(main), "DEPENDS_ON", id(path)})
		}
	}
	return json.MarshalIndent(map[string]any{
		"spdxVersion":       "SPDX-2.3",
		"dataLicense":       "CC0-1.0",
		"SPDXID":            document,
		"name":              "treadle " + r.version,
		"documentNamespace": "https://" + main + "/releases/" + r.version,
		"creationInfo":      map[string]any{"created": r.time.Format("2006-01-02T15:04:05Z"), "creators": []string{"Tool: " + main + "/internal/release"}},
		"packages":          packs,
		"relationships":     relations,
	}, "", "  ")
}
