package userlist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

func TestRead_FormsOfTheSameList(t *testing.T) {
	t.Parallel()
	want := []coupon.UserID{7, 8, 18446744073709551615}
	var digests []string
	for name, c := range map[string]struct {
		file       string
		duplicates int
	}{
		"an id a line":          {"8\n7\n18446744073709551615\n", 0},
		"without a last end":    {"7\n8\n18446744073709551615", 0},
		"Excel":                 {"\ufeffuser_id\r\n8\r\n7\r\n18446744073709551615\r\n\r\n", 0},
		"Excel, two columns":    {"\ufeff이름,User_ID,비고\r\n김,8,\r\n이,7,\"a, b\"\r\n,,\r\n박,18446744073709551615,x\r\n", 0},
		"semicolons":            {"user_id;name\n8;a\n7;b\n18446744073709551615;c\n", 0},
		"tabs":                  {"name\tuser_id\na\t8\nb\t7\nc\t18446744073709551615\n", 0},
		"duplicates, blanks":    {" 7\n\n8 \n7\n\"8\"\n18446744073709551615\n", 2},
		"NDJSON":                {`{"user_id": 8}` + "\n" + `{"user_id": "7", "name": "x"}` + "\n\n" + `{"user_id": 18446744073709551615}`, 0},
		"NDJSON, begun by ends": {"\n{\"user_id\":8}\r\n{\"user_id\":7}\r\n{\"user_id\":18446744073709551615}\r\n", 0},
	} {
		list, err := Read(strings.NewReader(c.file))
		require.NoError(t, err, name)
		require.Equal(t, want, list.Users, name)
		require.Equal(t, c.duplicates, list.Duplicates, name)
		digests = append(digests, list.Digest())
	}
	for _, digest := range digests {
		require.Equal(t, digests[0], digest)
	}
	other, err := Read(strings.NewReader("7\n8\n"))
	require.NoError(t, err)
	require.NotEqual(t, digests[0], other.Digest())
}

func TestRead_Refusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		want text.Message
		says string
	}{
		"nothing":            {"", text.ListEmpty, "no user"},
		"a header alone":     {"\ufeffuser_id\r\n", text.ListEmpty, "user_id"},
		"blanks":             {" \r\n \n", text.ListEmpty, "no user"},
		"UTF-16":             {"\xff\xfe7\x00", text.ListNotUTF8, "CSV UTF-8"},
		"UTF-16 by number":   {"7\x00\n\x008\x00\n", text.ListNotUTF8, "CSV UTF-8"},
		"EUC-KR":             {"\xb0\xed\xb0\xb4\xb9\xf8\xc8\xa3\n7\n", text.ListNotUTF8, "CSV UTF-8"},
		"a workbook":         {"PK\x03\x04…", text.ListIsWorkbook, "workbook"},
		"several columns":    {"7,김\n8,이\n", text.ListWithoutHeader, "user_id"},
		"another header":     {"고객번호\n7\n", text.ListOtherHeader, `"고객번호"`},
		"two headers":        {"user_id;memo;user_id\n7;x;8\n", text.ListTwoColumns, "user_id"},
		"two ids in JSON":    {`{"user_id":7,"user_id":8}`, text.ListWrongJSON, "twice"},
		"two objects a line": {`{"user_id":7}{"user_id":8}`, text.ListWrongJSON, "line 1"},
		"a leading zero":     {"7\n08\n", text.ListWrongUser, `line 2: "08"`},
		"zero":               {"user_id\n0\n", text.ListWrongUser, `line 2: "0"`},
		"too large":          {"18446744073709551616\n", text.ListWrongUser, "line 1"},
		"shortened by Excel": {"user_id\n1.23457E+15\n", text.ListNumberShortened, "format"},
		"a missing column":   {"name,user_id\na\n", text.ListWrongUser, `line 2: ""`},
		"an open quote":      {"7\n\"8\n", text.ListUnread, "quote"},
		"no JSON":            {"{\"user_id\":7}\n{\"user_id\":\n", text.ListWrongJSON, "line 2"},
		"another name":       {`{"userId":7}`, text.ListWrongUser, "line 1"},
		"a fraction":         {`{"user_id":7.5}`, text.ListNumberShortened, "line 1"},
	} {
		_, err := Read(strings.NewReader(c.file))
		require.True(t, text.Is(err, c.want), "%s: %v", name, err)
		require.Contains(t, err.Error(), c.says, name)
	}
	_, err := Read(strings.NewReader("7\nx\ny\n8\n"))
	require.EqualError(t, err, "line 2: \"x\" is no user id\nline 3: \"y\" is no user id", "every wrong line is named")
	_, err = Read(strings.NewReader("7\n" + strings.Repeat("x\n", 1000)))
	require.Equal(t, maxWrong, len(text.Split(err)), "but not too many")
}

func TestRead_IsBounded(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for user := range MaxUsers + 1 {
		fmt.Fprintln(&long, user+1)
	}
	_, err := Read(strings.NewReader(long.String()))
	require.True(t, text.Is(err, text.ListTooLong), err)
	_, err = Read(strings.NewReader("user_id,note\n7," + strings.Repeat("x", MaxBytes)))
	require.True(t, text.Is(err, text.ListTooLong), err)
	_, err = Read(strings.NewReader("{\"user_id\":7}\n" + strings.Repeat(" ", MaxBytes)))
	require.True(t, text.Is(err, text.ListTooLong) || text.Is(err, text.ListUnread), err)
}
