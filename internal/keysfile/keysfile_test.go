package keysfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/keysfile"
)

// words is a file with any words as keys.
var words = keysfile.Format[string]{Setting: "WORDS_FILE", Parse: func(content []byte) (all []string, err error) {
	for number, fields := range keysfile.Lines(content) {
		all = append(all, fmt.Sprint(number, fields))
	}
	return all, nil
}}

func load(t *testing.T, content string) (*keysfile.File[string], error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "words")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return keysfile.Load(path, words)
}

func TestLines_LeaveOutCommentsAndEmptyLines(t *testing.T) {
	t.Parallel()
	file, err := load(t, "# a comment\r\n\n one\ttwo \r\n  #more\nthree # four")
	require.NoError(t, err)
	require.Equal(t, []string{"3 [one two]", "5 [three # four]"}, file.Keys())
}

func TestFile_BeginsBehindAByteOrderMark(t *testing.T) {
	t.Parallel()
	file, err := load(t, "\ufeffone two\n\ufeffthree")
	require.NoError(t, err)
	require.Equal(t, []string{"1 [one two]", "2 [\ufeffthree]"}, file.Keys())
}

func TestRead_DoesNotRepeatThePath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"hunter2", "user:hunter2@tcp(db:3306)/coupons", "/dev/null/hunter2", "hunter2\x00"} {
		_, err := keysfile.Read("WORDS_FILE", path, 10)
		require.ErrorContains(t, err, "WORDS_FILE cannot be read: ")
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := keysfile.Read("WORDS_FILE", t.TempDir(), 10)
	require.EqualError(t, err, "WORDS_FILE cannot be read: no regular file")
}

func TestKeys_AreBounded(t *testing.T) {
	t.Parallel()
	_, err := load(t, strings.Repeat("a\n", 100))
	require.NoError(t, err)
	_, err = load(t, strings.Repeat("a\n", 101))
	require.EqualError(t, err, "WORDS_FILE has 101 keys: want at most 100")
	_, err = load(t, strings.Repeat("#", 64<<10+1))
	require.EqualError(t, err, "WORDS_FILE is too long: want at most 65536 bytes")
	none, err := keysfile.Load("", words)
	require.NoError(t, err)
	require.Empty(t, none.Keys())
}
