// Package asyncapi checks events against their contract, docs/asyncapi.yaml.
package asyncapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/jajeong/jajeong/docs"
)

// Document returns the contract as JSON values. It is shared and read-only.
var Document = sync.OnceValues(func() (map[string]any, error) {
	var parsed any
	if err := yaml.Unmarshal(docs.AsyncAPI, &parsed); err != nil {
		return nil, fmt.Errorf("read docs/asyncapi.yaml: %w", err)
	}
	text, err := json.Marshal(parsed)
	if err != nil {
		return nil, fmt.Errorf("write docs/asyncapi.yaml as JSON: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read docs/asyncapi.yaml as JSON: %w", err)
	}
	document, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("docs/asyncapi.yaml is no object")
	}
	return document, nil
})

// Check fails the test if body is not an event as the document describes it. A member that the document does not name
// is an error here, although consumers ignore it, so that no member is added without the document.
func Check(t testing.TB, body []byte) {
	t.Helper()
	if err := Conforms(body); err != nil {
		t.Errorf("event does not conform to docs/asyncapi.yaml: %v in %.500s", err, body)
	}
}

// Conforms returns the error for which Check fails the test.
func Conforms(body []byte) error {
	byType, err := compiled()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	event, _ := value.(map[string]any)
	schema := byType[text(event["type"])]
	if schema.payload == nil {
		return fmt.Errorf("type %q is not in the document", text(event["type"]))
	}
	if err := schema.payload.Validate(value); err != nil {
		return err
	}
	if err := schema.nothingElse.Validate(value); err != nil {
		return err
	}
	return agree(event)
}

// agree checks what the document says about two members together.
func agree(event map[string]any) error {
	data, _ := event["data"].(map[string]any)
	at, err := time.Parse(time.RFC3339Nano, text(event["time"]))
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%s-%s-%d", text(data["userId"]), text(event["sequence"]), at.UnixMicro())
	if text(event["sequence"]) == "0" {
		id = "issued-" + text(data["userId"])
	}
	for name, want := range map[string]string{
		"source": "/coupons/" + text(data["couponId"]), "subject": text(data["userId"]),
		"partitionkey": text(data["userId"]), "id": id,
	} {
		if got := text(event[name]); got != want {
			return fmt.Errorf("%s is %q, its other members make it %q", name, got, want)
		}
	}
	if at := data["issuedAt"]; at != nil && at != event["time"] {
		return fmt.Errorf("issuedAt %v is not time %v", at, event["time"])
	}
	return nil
}

func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// schemas are those of one type. nothingElse adds the rule that an event and its data have no other members: JSON
// Schema draft 7, which AsyncAPI uses, cannot say that of composed schemas.
type schemas struct{ payload, nothingElse *jsonschema.Schema }

// compiled returns the schemas of each type.
var compiled = sync.OnceValues(func() (map[string]schemas, error) {
	document, err := Document()
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	const contract = "urn:jajeong:asyncapi"
	if err := compiler.AddResource(contract, document); err != nil {
		return nil, fmt.Errorf("add docs/asyncapi.yaml: %w", err)
	}
	byType := map[string]schemas{}
	components, _ := document["components"].(map[string]any)
	messages, _ := components["messages"].(map[string]any)
	for key, message := range messages {
		named, _ := message.(map[string]any)
		payload := contract + "#/components/messages/" + key + "/payload"
		strict := map[string]any{
			"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": payload, "unevaluatedProperties": false,
			"properties": map[string]any{"data": map[string]any{"$ref": payload + "/allOf/1/properties/data",
				"unevaluatedProperties": false}},
		}
		address := "urn:jajeong:message:" + key
		if err := compiler.AddResource(address, strict); err != nil {
			return nil, fmt.Errorf("add message %s: %w", key, err)
		}
		var compiled schemas
		if compiled.payload, err = compiler.Compile(payload); err == nil {
			compiled.nothingElse, err = compiler.Compile(address)
		}
		if err != nil {
			return nil, fmt.Errorf("compile message %s: %w", key, err)
		}
		byType[text(named["name"])] = compiled
	}
	return byType, nil
})
