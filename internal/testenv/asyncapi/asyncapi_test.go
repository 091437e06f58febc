package asyncapi_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/testenv/asyncapi"
)

//go:embed testdata/asyncapi-3.1.0.json
var official []byte

func TestDocument_FitsTheOfficialSchema(t *testing.T) {
	t.Parallel()
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(official))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("urn:asyncapi:3.1.0", resource))
	schema, err := compiler.Compile("urn:asyncapi:3.1.0")
	require.NoError(t, err)
	require.NoError(t, schema.Validate(document(t)))
	broken := copied(t, document(t))
	set(broken, []string{"operations", "publishToRedis", "action"}, "publish")
	require.Error(t, schema.Validate(broken))
}

func TestDocument_ReferencesLeadSomewhere(t *testing.T) {
	t.Parallel()
	found := 0
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			if to, ok := v["$ref"].(string); ok {
				found++
				path, local := strings.CutPrefix(to, "#/")
				require.True(t, local, to)
				require.Len(t, v, 1, "members beside $ref %s are ignored", to)
				require.NotNil(t, get(document(t), strings.Split(path, "/")), "%s leads nowhere", to)
			}
			for _, member := range v {
				walk(member)
			}
		}
	}
	walk(document(t))
	require.Greater(t, found, 60)
}

func TestDocument_HasAMessageForEachKindOfChange(t *testing.T) {
	t.Parallel()
	want := []string{"issued=" + events.IssuedType}
	for _, kind := range kinds(t) {
		want = append(want, strings.ToLower(string(kind))+"="+events.TypeOf(kind))
	}
	require.Len(t, want, 9)
	var have []string
	for key, message := range messages(t) {
		have = append(have, fmt.Sprintf("%s=%s", key, message["name"]))
	}
	assert.ElementsMatch(t, want, have)
	for _, channel := range []string{"redis", "kafka"} {
		offered := object(t, "channels", channel, "messages")
		assert.ElementsMatch(t, slices.Collect(maps.Keys(messages(t))), slices.Collect(maps.Keys(offered)), channel)
	}
}

func TestDocument_ExamplesConform(t *testing.T) {
	t.Parallel()
	for key, message := range messages(t) {
		examples, _ := message["examples"].([]any)
		require.NotEmpty(t, examples, key)
		for _, example := range examples {
			body, err := json.Marshal(example.(map[string]any)["payload"])
			require.NoError(t, err)
			require.Contains(t, string(body), `"`+message["name"].(string)+`"`, key)
			asyncapi.Check(t, body)
			requireCloudEvent(t, body)
		}
	}
}

func TestEventsConform(t *testing.T) {
	t.Parallel()
	for name, e := range every(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message, err := e.Message()
			require.NoError(t, err)
			asyncapi.Check(t, message.Body)
			requireCloudEvent(t, message.Body)
			require.Equal(t, e.Subject, message.Key)
		})
	}
}

func TestBrokenEventsDoNotConform(t *testing.T) {
	t.Parallel()
	for name, e := range every(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message, err := e.Message()
			require.NoError(t, err)
			for what, body := range breaks(t, message.Body) {
				require.Error(t, asyncapi.Conforms(body), "%s: %s", what, body)
			}
		})
	}
	for _, body := range []string{"", "{}", "[]", "null", `"issued"`, `{"type": 1}`,
		`{"type": "kr.jajeong.coupon.issued.v1"}`} {
		require.Error(t, asyncapi.Conforms([]byte(body)), body)
	}
}

// breaks returns copies of an event with one mistake each.
func breaks(t *testing.T, body []byte) map[string][]byte {
	t.Helper()
	broken := map[string][]byte{}
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	require.NoError(t, err)
	whole := read.(map[string]any)
	written := func(e map[string]any) []byte {
		text, err := json.Marshal(e)
		require.NoError(t, err)
		return text
	}
	require.NoError(t, asyncapi.Conforms(written(whole)))
	put := func(what string, path []string, value any) {
		e := copied(t, whole)
		set(e, path, value)
		broken[what] = written(e)
	}
	data := whole["data"].(map[string]any)

	for name, parent := range map[string]map[string]any{"event": whole, "data": data} {
		var at []string
		if name == "data" {
			at = []string{"data"}
		}
		for member := range parent {
			path := append(slices.Clone(at), member)
			put(name+" without "+member, path, nil)
			put(name+" with wrong type of "+member, path, true)
			put(name+" with null "+member, path, json.RawMessage("null"))
		}
		put(name+" with an unknown member", append(slices.Clone(at), "actor"), "kim")
	}
	for what, value := range map[string]any{"type": "kr.jajeong.coupon.issued.v2", "source": "/coupons/43",
		"id":      "issued-07",
		"subject": "8", "partitionkey": "8", "sequence": 1.5, "time": "2026-11-21T00:00:01.5+09:00",
		"data/couponId": 43, "data/position": 0,
		"data/orderId": "A 1001", "data/amountWon": 0.5, "data/discountWon": -1,
		"data/expiresAt": "2026-12-21T00:00:00+09:00"} {
		if path := strings.Split(what, "/"); get(whole, path) != nil {
			put(fmt.Sprintf("%s %v", what, value), path, value)
		}
	}
	return broken
}

// every returns an event of each type, and with the greatest numbers.
func every(t *testing.T) map[string]*events.Event {
	t.Helper()
	at := time.Date(2026, 11, 20, 15, 0, 1, 500_000_000, time.UTC)
	ends := at.AddDate(0, 0, 30)
	issued := events.Issued{Coupon: 42, User: 7, UserCoupon: 9001, Position: 12, AppliedAt: at.Add(-time.Hour),
		IssuedAt:  at,
		ExpiresAt: ends, Run: 17}
	greatest := events.Issued{Coupon: math.MaxUint64, User: math.MaxUint64, UserCoupon: math.MaxUint64,
		Position:  math.MaxUint32,
		AppliedAt: at, IssuedAt: at.Truncate(time.Second), ExpiresAt: ends, Run: math.MaxUint64}
	all := map[string]*events.Event{"issued": issued.Event(), "issued greatest": greatest.Event()}
	for _, kind := range kinds(t) {
		changed := &events.Changed{Coupon: 42, User: 7, UserCoupon: 9001}
		sequence := 3
		switch kind {
		case coupon.LogReserved, coupon.LogUsed, coupon.LogReleased, coupon.LogRefunded:
			changed.Order, changed.Amount, changed.Discount = new("A-1001"), new(int64(32_000)), new(int64(5_000))
		case coupon.LogGranted:
			changed.ExpiresAt, sequence = &ends, 1
		case coupon.LogExtended:
			changed.ExpiresAt, sequence = &ends, math.MaxInt32
		}
		all[string(kind)] = changed.Event(kind, sequence, at)
	}
	return all
}

// kinds returns the constants of type coupon.LogKind, as the source has them.
func kinds(t *testing.T) (found []coupon.LogKind) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../coupon/usercoupon.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "LogKind" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			found = append(found, coupon.LogKind(value))
		}
		return true
	})
	require.NotEmpty(t, found)
	return found
}

// requireCloudEvent demands that the SDK of CloudEvents reads the event and finds no mistake.
func requireCloudEvent(t *testing.T, body []byte) {
	t.Helper()
	var e event.Event
	require.NoError(t, json.Unmarshal(body, &e))
	require.NoError(t, e.Validate())
	require.Equal(t, event.CloudEventsVersionV1, e.SpecVersion())
	require.Equal(t, e.Subject(), e.Extensions()["partitionkey"])
	require.IsType(t, int32(0), e.Extensions()["sequence"])
	require.Len(t, e.Extensions(), 2)
	require.Equal(t, event.ApplicationJSON, e.DataContentType())
	require.NotEmpty(t, e.Data())
}

func document(t *testing.T) map[string]any {
	t.Helper()
	value, err := asyncapi.Document()
	require.NoError(t, err)
	return value
}

func messages(t *testing.T) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for key, message := range object(t, "components", "messages") {
		found[key] = message.(map[string]any)
	}
	return found
}

func object(t *testing.T, path ...string) map[string]any {
	t.Helper()
	found, ok := get(document(t), path).(map[string]any)
	require.True(t, ok, path)
	return found
}

func get(value any, path []string) any {
	for _, name := range path {
		within, _ := value.(map[string]any)
		value = within[name]
	}
	return value
}

// set changes a member of an object, or removes it if the value is nil.
func set(object map[string]any, path []string, value any) {
	last := len(path) - 1
	within := get(object, path[:last]).(map[string]any)
	if value == nil {
		delete(within, path[last])
		return
	}
	within[path[last]] = value
}

func copied(t *testing.T, value map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	again, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	return again.(map[string]any)
}
