// Package openapi checks answers of the APIs against their contracts: docs/openapi.yaml of apply-api, whose functions
// are Document, Transport and Check, docs/openapi-wallet.yaml of wallet-api, and docs/openapi-admin.yaml of settle
// console.
package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/jajeong/jajeong/docs"
)

// Contract is the description of an API.
type Contract struct {
	file     string
	document func() (*openapi3.T, error)
	compiled sync.Map // schemas: *openapi3.SchemaRef → func() (*jsonschema.Schema, error), which compiles it once
}

// The contracts of the programs.
var (
	Apply  = newContract("docs/openapi.yaml", docs.OpenAPI)
	Wallet = newContract("docs/openapi-wallet.yaml", docs.OpenAPIWallet)
	Admin  = newContract("docs/openapi-admin.yaml", docs.OpenAPIAdmin)
)

func newContract(file string, text []byte) *Contract {
	return &Contract{file: file, document: sync.OnceValues(func() (*openapi3.T, error) {
		loader := openapi3.NewLoader()
		document, err := loader.LoadFromData(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if err := document.Validate(loader.Context); err != nil {
			return nil, fmt.Errorf("check %s: %w", file, err)
		}
		return document, nil
	})}
}

// Document returns the contract, parsed and validated, examples included. It is shared and read-only.
func (c *Contract) Document() (*openapi3.T, error) { return c.document() }

// Document returns the contract of apply-api.
func Document() (*openapi3.T, error) { return Apply.Document() }

// Transport returns a transport that fails the test when a response does not conform to the contract. base is
// http.DefaultTransport when nil.
func (c *Contract) Transport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{t, base, c}
}

// Transport is that of the contract of apply-api.
func Transport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	return Apply.Transport(t, base)
}

type transport struct {
	t        testing.TB
	base     http.RoundTripper
	contract *Contract
}

func (c transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := c.contract.Check(request, response); err != nil {
		c.t.Errorf("%s %s: %v", request.Method, request.URL, err)
	}
	return response, nil
}

// CloseIdleConnections closes the idle connections of base.
func (c transport) CloseIdleConnections() { (&http.Client{Transport: c.base}).CloseIdleConnections() }

// ofTransport are the headers that net/http writes. They are no part of the API.
var ofTransport = map[string]bool{"Connection": true, "Content-Length": true, "Content-Type": true, "Date": true}

// Check is that of the contract of apply-api.
func Check(request *http.Request, response *http.Response) error {
	return Apply.Check(request, response)
}

// Check returns an error if a response does not conform to the contract: status, headers and their values, body.
// Headers and members that the document does not name are errors, too. The body can be read again afterwards.
func (c *Contract) Check(request *http.Request, response *http.Response) error {
	document, err := c.document()
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	if err := response.Body.Close(); err != nil {
		return fmt.Errorf("close the body: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))

	described := responsesTo(document, request).Status(response.StatusCode)
	if described == nil {
		return fmt.Errorf("status %d is not in the document", response.StatusCode)
	}
	if err := c.headersConform(described.Value.Headers, response.Header); err != nil {
		return fmt.Errorf("status %d: %w", response.StatusCode, err)
	}
	contentType := response.Header.Get("Content-Type")
	if len(described.Value.Content) == 0 && contentType == "" && len(body) == 0 {
		return nil
	}
	content := described.Value.Content[contentType]
	switch {
	case content == nil:
		return fmt.Errorf("content type %q of status %d is not in the document", contentType, response.StatusCode)
	case request.Method == http.MethodHead && len(body) > 0:
		return fmt.Errorf("%d bytes in answer to HEAD", len(body))
	case contentType == "text/event-stream":
		return c.eventsConform(body)
	case request.Method == http.MethodHead || !strings.HasSuffix(contentType, "json"):
		return nil // the YAML of the document has a test of its own
	}
	if err := c.bodyConforms(content, response.StatusCode, body); err != nil {
		return fmt.Errorf("%w in %.300s", err, body)
	}
	return nil
}

func (c *Contract) headersConform(described openapi3.Headers, headers http.Header) error {
	known := map[string]bool{} // by the spelling of net/http
	for name := range described {
		known[http.CanonicalHeaderKey(name)] = true
	}
	for name, values := range headers {
		if !known[name] && !ofTransport[name] {
			return fmt.Errorf("header %s is not in the document", name)
		}
		if len(values) != 1 {
			return fmt.Errorf("header %s comes %d times", name, len(values))
		}
	}
	for name, header := range described {
		text := headers.Get(name)
		switch {
		case text == "" && header.Value.Required:
			return fmt.Errorf("header %s is missing", name)
		case text == "":
			continue
		}
		value := any(text)
		if header.Value.Schema.Value.Type.Is("integer") {
			number, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
			value = number
		}
		if err := c.fits(header.Value.Schema, value); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	return nil
}

// fits validates a value. Schemas of OpenAPI 3.1 are JSON Schema 2020-12.
func (c *Contract) fits(schema *openapi3.SchemaRef, value any) error {
	known, ok := c.compiled.Load(schema)
	if !ok {
		known, _ = c.compiled.LoadOrStore(schema,
			sync.OnceValues(func() (*jsonschema.Schema, error) { return c.compile(schema) }))
	}
	compiled, err := known.(func() (*jsonschema.Schema, error))()
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}

func (c *Contract) compile(schema *openapi3.SchemaRef) (*jsonschema.Schema, error) {
	document, err := c.document()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{
		// The targets of its $refs.
		"allOf": []any{schema}, "components": map[string]any{"schemas": document.Components.Schemas},
	})
	if err != nil {
		return nil, fmt.Errorf("write a schema: %w", err)
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	parts := resource.(map[string]any)
	for _, part := range parts["allOf"].([]any) {
		strict(part)
	}
	for _, part := range parts["components"].(map[string]any)["schemas"].(map[string]any) {
		strict(part)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	const address = "urn:jajeong:schema"
	if err := compiler.AddResource(address, resource); err != nil {
		return nil, fmt.Errorf("add a schema: %w", err)
	}
	return compiler.Compile(address)
}

// responsesTo returns the responses that the document allows. A request without an operation gets one of the three
// responses that the document's introduction names.
func responsesTo(document *openapi3.T, request *http.Request) *openapi3.Responses {
	named := document.Components.Responses
	item := pathItem(document, request.URL.EscapedPath())
	if item == nil {
		return openapi3.NewResponses(openapi3.WithStatus(404, named["NotFound"]),
			openapi3.WithStatus(503, named["Overloaded"]))
	}
	method := request.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if operation := item.Operations()[method]; operation != nil {
		return operation.Responses
	}
	return openapi3.NewResponses(openapi3.WithStatus(405, named["MethodNotAllowed"]),
		openapi3.WithStatus(503, named["Overloaded"]))
}

// pathItem returns the document's item for a path, or nil. The library's own routers would clean the path first.
func pathItem(document *openapi3.T, escaped string) *openapi3.PathItem {
	if path.Clean(escaped) != escaped {
		return nil
	}
	segments := strings.Split(escaped, "/")
	for template, item := range document.Paths.Map() {
		wanted := strings.Split(template, "/")
		matches := len(wanted) == len(segments)
		for i := 0; matches && i < len(wanted); i++ {
			segment, err := url.PathUnescape(segments[i])
			matches = err == nil && (segment == wanted[i] || strings.HasPrefix(wanted[i], "{") && segment != "")
		}
		if matches {
			return item
		}
	}
	return nil
}
