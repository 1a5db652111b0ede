// Package toolindex finds the tools that fit a text, among thousands, without a model.
//
// The keyword score is BM25F: words of a tool's name, description, argument names, and
// argument texts count with different weights. Identifiers such as getUserName and
// get_user.name are split into words. A query word that no tool contains counts as the similar
// words of the tools, so misspelled words find something. With an embedder, the score is a
// weighted sum of the keyword score and the cosine similarity, each divided by its maximum
// for the query. Tools with equal scores are ordered by name.
package toolindex
