package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The contracts leave answers open to later fields and values, because clients are to ignore what they do not know.
// Tests refuse whatever the contract does not name today: objects are closed, and these extensions are rules.
const (
	codesOf       = "x-codes"        // of an answer: the codes of its problems
	statusesOf    = "x-statuses"     // of an answer: its values of status
	alwaysWith    = "x-with"         // of a field: the codes or statuses with which it is present
	perhapsWith   = "x-perhaps-with" // of a field: those with which it may be present, too
	oneOfTheLists = "x-one-of"       // of an object: lists of fields, exactly one of which is present
)

// Values returns the codes or statuses that an answer can have; none if the contract lists none.
func Values(content *openapi3.MediaType) []string {
	values, _ := valuesOf(content)
	return values
}

func valuesOf(content *openapi3.MediaType) (values []string, member string) {
	if values = texts(content.Extensions[codesOf]); len(values) > 0 {
		return values, "code"
	}
	return texts(content.Extensions[statusesOf]), "status"
}

func texts(list any) (texts []string) {
	values, _ := list.([]any)
	for _, value := range values {
		texts = append(texts, fmt.Sprint(value))
	}
	return texts
}

// bodyConforms checks JSON against what the contract has for this answer.
func (c *Contract) bodyConforms(content *openapi3.MediaType, status int, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	if err := c.fits(content.Schema, value); err != nil {
		return err
	}
	object, _ := value.(map[string]any)
	values, member := valuesOf(content)
	if len(values) > 0 && !slices.Contains(values, fmt.Sprint(object[member])) {
		return fmt.Errorf("%s %v of status %d is not in the document", member, object[member], status)
	}
	if content.Schema.Ref != problemSchema {
		return nil
	}
	if object["status"] != json.Number(fmt.Sprint(status)) {
		return fmt.Errorf("a problem of status %v in an answer of status %d", object["status"], status)
	}
	if object["type"] != "urn:jajeong:problem:"+fmt.Sprint(object["code"]) {
		return fmt.Errorf("type %v for code %v", object["type"], object["code"])
	}
	if len(values) == 0 {
		return fmt.Errorf("the document has no %s for status %d", codesOf, status)
	}
	return nil
}

const problemSchema = "#/components/schemas/Problem"

// eventsConform checks the data of each event of a stream.
func (c *Contract) eventsConform(stream []byte) error {
	document, err := c.document()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(stream)) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(data))
		if err != nil {
			return err
		}
		if err := c.fits(document.Components.Schemas["Application"], value); err != nil {
			return fmt.Errorf("%w in %s", err, data)
		}
	}
	return nil
}

// strict turns a JSON schema and the schemas in it into what tests demand.
func strict(node any) {
	schema, ok := node.(map[string]any)
	if !ok {
		return
	}
	properties, ok := schema["properties"].(map[string]any)
	if ok {
		if _, decided := schema["additionalProperties"]; !decided {
			schema["additionalProperties"] = false
		}
		if rules := presence(properties); len(rules) > 0 {
			schema["allOf"] = rules
		}
	}
	if lists, ok := schema[oneOfTheLists].([]any); ok {
		var required []any
		for _, list := range lists {
			required = append(required, map[string]any{"required": list})
		}
		schema["oneOf"] = required
	}
	for _, property := range properties {
		strict(property)
	}
	strict(schema["items"])
}

// presence returns the rules about fields that depend on the code or the status.
func presence(properties map[string]any) (rules []any) {
	member := "status"
	if properties["code"] != nil {
		member = "code"
	}
	is := func(values []any) map[string]any {
		return map[string]any{"properties": map[string]any{member: map[string]any{"enum": values}}}
	}
	for name, property := range properties {
		field, _ := property.(map[string]any)
		always, has := field[alwaysWith].([]any)
		perhaps, may := field[perhapsWith].([]any)
		if !has && !may {
			continue
		}
		present := map[string]any{"required": []any{name}}
		rules = append(rules, map[string]any{"if": present, "then": is(slices.Concat(always, perhaps))})
		if has {
			rules = append(rules, map[string]any{"if": is(always), "then": present})
		}
	}
	return rules
}
