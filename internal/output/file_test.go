package output

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

func TestWriteFile_KeepsPipesAndLinks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, "report")
		return err
	}

	file, link := filepath.Join(folder, "file"), filepath.Join(folder, "link")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o644))
	require.NoError(t, os.Symlink(file, link))
	require.NoError(t, WriteFile(link, write))
	target, err := os.Readlink(link)
	require.NoError(t, err, "it is still a link")
	require.Equal(t, file, target)
	text := testenv.Content(t, file)
	require.Equal(t, "report", string(text))

	pipe := filepath.Join(folder, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o644))
	read := make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(pipe)
		read <- string(text)
	}()
	require.NoError(t, WriteFile(pipe, write))
	there, err := os.Lstat(pipe)
	require.NoError(t, err)
	require.NotZero(t, there.Mode()&os.ModeNamedPipe, "it is still a pipe")
	require.Equal(t, "report", <-read)

	require.ErrorContains(t, WriteFile(folder, write), "is a directory")
}

func TestWriteFile_KeepsOldFileAfterFailedWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "report")
	require.NoError(t, os.WriteFile(path, []byte("before"), 0o644))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	require.ErrorIs(t, WriteFile(path, func(w io.Writer) error {
		w.(*Stream).to = full          // the disk fills up
		_, _ = io.WriteString(w, "re") // code that prints ignores errors
		return nil
	}), syscall.ENOSPC)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 1)
	text := testenv.Content(t, path)
	require.Equal(t, "before", string(text))
}
