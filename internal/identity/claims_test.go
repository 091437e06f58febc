package identity

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseClaims(t *testing.T) {
	t.Parallel()
	c, err := parseClaims([]byte(" {\n\t\"a\" : 1 , \"b\":\"x, }\\\"y\",\"\\u0063\": [1,{\"a\":2}] ,\"d\":{\"a\":[\"]\"]}\t,\"a\": 3 \r}\n"))
	require.NoError(t, err)
	for name, want := range map[string]string{"a": "3", "b": `"x, }\"y"`, "c": `[1,{"a":2}]`, "d": `{"a":["]"]}`, "e": "", "A": ""} {
		require.Equal(t, want, string(c.of(name)), name)
	}
	c, err = parseClaims([]byte("{ }"))
	require.NoError(t, err)
	require.Nil(t, c.of("a"))
	for _, wrong := range []string{"", " ", "{", "[]", "7", `"a"`, "null", `{"a":1}{}`, `{"a":1,}`, `{a:1}`} {
		_, err := parseClaims([]byte(wrong))
		require.Error(t, err, wrong)
	}
}

// The members are those that encoding/json finds.
func FuzzParseClaims(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, ` { "a" : "}" , "b" : [ { } , "\"" ] } `, `{"\u0061":null,"a":-1.5e3}`, "{\"\xff\":\"\xff\"}", `[]`, `{"a":"\\"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want map[string]json.RawMessage
		wrong := json.Unmarshal([]byte(text), &want)
		c, err := parseClaims([]byte(text))
		if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
			require.Error(t, err)
			return
		}
		require.Equal(t, wrong == nil, err == nil, "%v", wrong)
		for name, value := range want {
			require.Equal(t, string(value), string(c.of(name)), name)
		}
	})
}
