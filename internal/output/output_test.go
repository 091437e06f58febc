package output

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStream_ReplacesControlCharacters(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"쿠폰\tx\n":                "쿠폰\tx\n",
		"\x1b[31mred\x1b[0m\r\n": "\uFFFD[31mred\uFFFD[0m\uFFFD\n",
		"a\u009b2Jb\x7f\x00c":    "a\uFFFD2Jb\uFFFD\uFFFDc",
		"\xff\xfe":               "\uFFFD\uFFFD",
		"":                       "",
	} {
		var whole, pieces bytes.Buffer
		_, err := fmt.Fprint(NewStream(&whole), written)
		require.NoError(t, err)
		require.Equal(t, want, whole.String())
		s := NewStream(&pieces)
		for i := range len(written) {
			_, err := s.Write([]byte{written[i]})
			require.NoError(t, err)
		}
		require.Equal(t, want, pieces.String(), "byte by byte")
	}
}

func TestCSV_DefusesFormulas(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "kim": "kim", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\t=1": "' =1", "\r=1": "' =1",
		"\x1b[2J": "\uFFFD[2J", "a\u009bb": "a\uFFFDb", "\xff": "\uFFFD", "1=1": "1=1", "쿠폰": "쿠폰",
		"\u202egpj.exe": "gpj.exe", "a\u2066b\u2069\u200e\u061c": "ab", "\u202e=1": "'=1",
	} {
		require.Equal(t, want, harmless(cell))
	}
}

func TestCSV_RecognisesTextByKind(t *testing.T) {
	t.Parallel()
	type name string
	var written bytes.Buffer
	require.NoError(t, CSV(&written, func(row func(cells ...any)) { row(name("=1"), "=1", -1) }))
	require.Equal(t, "\uFEFF'=1,'=1,-1\r\n", written.String())
}

// A cell that could be taken for two is quoted, for every separator that spreadsheets use.
func TestCSV_QuotesSeparators(t *testing.T) {
	t.Parallel()
	cells := []any{"a;=1", "a,b", `say "hi"`, " a", "plain", "", 7, "a\nb"}
	var written bytes.Buffer
	require.NoError(t, CSV(&written, func(row func(cells ...any)) { row(cells...); row("x") }))
	require.Equal(t, "\uFEFF\"a;=1\",\"a,b\",\"say \"\"hi\"\"\",\" a\",plain,,7,a b\r\nx\r\n", written.String())
	rows := csv.NewReader(strings.NewReader(strings.TrimPrefix(written.String(), "\uFEFF")))
	rows.FieldsPerRecord = -1
	first, err := rows.Read()
	require.NoError(t, err)
	require.Equal(t, []string{"a;=1", "a,b", `say "hi"`, " a", "plain", "", "7", "a b"}, first)
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		"0": "0", "-1": "-1", "999": "999", "1000": "1,000", "-1000": "-1,000", "123456": "123,456",
		"-123456":               "-123,456",
		"166020696663385964526": "166,020,696,663,385,964,526",
	} {
		require.Equal(t, want, Grouped(number))
	}
}
