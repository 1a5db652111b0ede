// Package loaders extracts text from HTML, PDF, and DOCX files for package retrieval.
//
//	load := retrieval.Dir("docs", &retrieval.FilesOptions{Parsers: loaders.Parsers()})
//
// The parsers are safe for untrusted files: the memory and the time that they take are
// limited, whatever a file contains.
package loaders

import "github.com/treadle-go/treadle/retrieval"

// Parsers returns the parsers of this package by extension, for
// [retrieval.FilesOptions].
func Parsers() map[string]retrieval.Parser {
	return map[string]retrieval.Parser{
		".html": HTML, ".htm": HTML, ".xhtml": HTML,
		".pdf":  PDF,
		".docx": DOCX,
	}
}
