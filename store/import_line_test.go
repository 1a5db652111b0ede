package store

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestImportRejectsLongLines(t *testing.T) {
	text := "a\n\n  \n" + strings.Repeat("b", 90) + "\r\n" + strings.Repeat("c", 101) + "\n"
	l := &lineReader{r: bufio.NewReaderSize(strings.NewReader(text), 16), most: 100}
	for _, want := range []struct {
		text string
		line int
	}{{"a", 1}, {strings.Repeat("b", 90), 4}} {
		if got, err := l.next(); err != nil || string(got) != want.text || l.line != want.line {
			t.Errorf("got %q in line %d and %v, want %q in line %d", got, l.line, err, want.text, want.line)
		}
	}
	if _, err := l.next(); err == nil || errors.Is(err, io.EOF) || l.line != 5 {
		t.Errorf("line %d: got error %v, want one about the long line 5", l.line, err)
	}
}
