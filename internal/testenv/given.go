package testenv

import (
	"io"
	"os"
	"testing"
)

// Content is the content of a file.
func Content(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Opened returns what was opened without an error, until the end of the test.
func Opened[C io.Closer](t testing.TB, opened C, err error) C {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}
