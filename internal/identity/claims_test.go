package identity

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	all, err := members([]byte(` {
		"a" : 1 ,"\u0062":{"a":["]"],"a":2}, "A":9007199254740993, "c": null,"e":"\\","d":"\":{"}
	`))
	require.NoError(t, err)
	got := map[string]string{}
	for name, value := range all {
		got[name] = string(value)
	}
	require.Equal(t, map[string]string{"a": "1", "b": `{"a":["]"],"a":2}`, "A": "9007199254740993", "c": "null",
		"d": `"\":{"`, "e": `"\\"`}, got)
	all, err = members([]byte("{ }"))
	require.NoError(t, err)
	require.Empty(t, all)
	for _, wrong := range []string{"", " ", "{", "[]", "7", `"a"`, "null", `{"a":1}{}`, `{"a":1,}`, `{a:1}`} {
		_, err := members([]byte(wrong))
		require.ErrorIs(t, err, errNoObject, wrong)
	}
	for _, twice := range []string{`{"a":1,"b":2,"a":1}`, `{"a":1,"\u0061":2}`} {
		_, err := members([]byte(twice))
		require.ErrorIs(t, err, errTwice, twice)
	}
}

// The members are those that encoding/json finds, unless a name comes twice.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, ` { "a" : "}" , "b" : [ { } , "\"" ] } `, `{"\u0061":null,"a":-1.5e3}`,
		"{\"\xff\":\"\xff\"}", `[]`, `{"a":"\\"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want map[string]json.RawMessage
		wrong := json.Unmarshal([]byte(text), &want)
		got, err := members([]byte(text))
		switch {
		case err == nil:
			require.NoError(t, wrong)
			require.Equal(t, want, got)
		case wrong == nil && strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{"):
			require.ErrorIs(t, err, errTwice)
		}
	})
}
