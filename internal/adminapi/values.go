package adminapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

// maxBody is enough for a list of a thousand users.
const maxBody = 64 << 10

// members are the values that changes have beside the fields of their verbs, by the names of the flags.
var members = []verb.Field{
	{Name: "reason", Kind: verb.Text}, {Name: "dry-run", Kind: verb.Check}, {Name: "ask", Kind: verb.Check},
	{Name: "approval", Kind: verb.Number}, {Name: "expect-digest", Kind: verb.Text}, {Name: "key", Kind: verb.Text},
}

// renamed are the members whose names say more than those of the flags.
var renamed = map[string]string{"expect-digest": "digest", "key": "clientKey"}

// MemberOf is the name of a value in a request: that of its flag, such as discount-won, as discountWon.
func MemberOf(flag string) string {
	if name := renamed[flag]; name != "" {
		return name
	}
	words := strings.Split(flag, "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// object reads a body: one JSON object, each name once. An empty body is an empty object.
func object(w http.ResponseWriter, r *http.Request) (given map[string]json.RawMessage, wrong result) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, bodyTooLarge
	}
	given = map[string]json.RawMessage{}
	if err == nil && len(bytes.TrimSpace(body)) == 0 {
		return given, ""
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if begin, failed := decoder.Token(); err != nil || failed != nil || begin != json.Delim('{') {
		return nil, invalidBody
	}
	for decoder.More() {
		token, err := decoder.Token()
		name, _ := token.(string)
		var value json.RawMessage
		if err == nil {
			err = decoder.Decode(&value)
		}
		if _, twice := given[name]; err != nil || twice {
			return nil, invalidBody
		}
		given[name] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, invalidBody
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, invalidBody
	}
	return given, ""
}

// valueOf returns the value of a field as a flag has it. A value of another type is not ok.
func valueOf(f verb.Field, raw json.RawMessage) (value string, ok bool) {
	if string(raw) == "null" { // not given
		return "", true
	}
	if f.Each != "" {
		var all []json.RawMessage
		if json.Unmarshal(raw, &all) != nil {
			return "", false
		}
		one, values := verb.Field{Kind: f.Each}, make([]string, len(all))
		for i, each := range all {
			if values[i], ok = valueOf(one, each); !ok || values[i] == "" {
				return "", false
			}
		}
		return verb.Listed(values), true
	}
	switch f.Kind {
	case verb.Check:
		var is bool
		if json.Unmarshal(raw, &is) != nil {
			return "", false
		}
		if is {
			return "true", true
		}
		return "", true
	case verb.Number:
		var number json.Number
		if raw[0] == '"' || json.Unmarshal(raw, &number) != nil {
			return "", false
		}
		return number.String(), true
	default:
		err := json.Unmarshal(raw, &value)
		return value, err == nil
	}
}

// typeOf is what a value must be, for people.
func typeOf(l text.Language, f verb.Field) string {
	if f.Each != "" {
		return l.Sprintf(text.JSONArray, typeOf(l, verb.Field{Kind: f.Each}))
	}
	switch f.Kind {
	case verb.Check:
		return l.Sprintf(text.JSONBoolean)
	case verb.Number:
		return l.Sprintf(text.JSONNumber)
	default:
		return l.Sprintf(text.JSONString)
	}
}

// fieldOf returns the field of a member; nil if there is none.
func fieldOf(fields []verb.Field, member string) *verb.Field {
	at := slices.IndexFunc(fields, func(f verb.Field) bool { return MemberOf(f.Name) == member })
	if at < 0 {
		return nil
	}
	return &fields[at]
}
