package identity

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The members are those that encoding/json finds, unless a name comes twice.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, ` { "a" : "}" , "b" : [ { } , "\"" ] } `,
		`{"\u0061":null,"a":-1.5e3}`,
		"{\"\xff\":\"\xff\"}", `[]`, `{"a":"\\"}`,
		`{"a":1,"b":2,"a":1}`, `{"a":1,"\u0061":2}`, ` {"A":9007199254740993,"e":"\":{"} `, "", "null", `{"a":1}{}`,
		`{"a":1,}`} {
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
