package testenv

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/jajeong/jajeong/docs"
)

// OpenAPI is docs/openapi.yaml, whole and with examples that fit. It is shared: read it only.
var OpenAPI = sync.OnceValues(func() (*openapi3.T, error) {
	loader := openapi3.NewLoader()
	document, err := loader.LoadFromData(docs.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("read docs/openapi.yaml: %w", err)
	}
	if err := document.Validate(loader.Context); err != nil {
		return nil, fmt.Errorf("check docs/openapi.yaml: %w", err)
	}
	return document, nil
})

// Conforming returns a transport that fails the test when a response of the public API is not as docs/openapi.yaml has
// it. base is http.DefaultTransport when nil.
func Conforming(t testing.TB, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return conforming{t, base}
}

type conforming struct {
	t    testing.TB
	base http.RoundTripper
}

func (c conforming) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := Conforms(request, response); err != nil {
		c.t.Errorf("%s %s: %v", request.Method, request.URL, err)
	}
	return response, nil
}

// CloseIdleConnections lets a client close those of its base.
func (c conforming) CloseIdleConnections() { (&http.Client{Transport: c.base}).CloseIdleConnections() }

// ofTransport are the headers that net/http writes: they belong to the connection, not to the API.
var ofTransport = map[string]bool{"Connection": true, "Content-Length": true, "Content-Type": true, "Date": true}

// Conforms says what about a response is not as docs/openapi.yaml has it: status, headers, their values, members. Nothing
// that the document does not name may be there. The body is read, and can be read again.
func Conforms(request *http.Request, response *http.Response) error {
	document, err := OpenAPI()
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

	operation := &openapi3.Operation{Responses: responsesTo(document, request)}
	described := operation.Responses.Status(response.StatusCode)
	if described == nil {
		return fmt.Errorf("status %d is not in the document", response.StatusCode)
	}
	for name, values := range response.Header {
		if described.Value.Headers[name] == nil && !ofTransport[name] {
			return fmt.Errorf("header %s of status %d is not in the document", name, response.StatusCode)
		}
		if len(values) != 1 {
			return fmt.Errorf("header %s comes %d times", name, len(values))
		}
	}
	if contentType := response.Header.Get("Content-Type"); described.Value.Content[contentType] == nil {
		return fmt.Errorf("content type %q of status %d is not in the document", contentType, response.StatusCode)
	}
	headless := request.Method == http.MethodHead
	if headless && len(body) > 0 {
		return fmt.Errorf("%d bytes in answer to HEAD", len(body))
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: &http.Request{Method: http.MethodGet}, // of HEAD the filter would look at nothing
			Route:   &routers.Route{Spec: document, Operation: operation},
		},
		Status: response.StatusCode, Header: response.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: headless},
	}
	if err := openapi3filter.ValidateResponse(context.Background(), input.SetBodyBytes(body)); err != nil {
		return fmt.Errorf("%w in %s", err, body)
	}
	return nil
}

// responsesTo are all that the document allows. What no operation takes is answered as the document's introduction says,
// by three responses that it names.
func responsesTo(document *openapi3.T, request *http.Request) *openapi3.Responses {
	named := document.Components.Responses
	item := pathItem(document, request.URL.EscapedPath())
	if item == nil {
		return openapi3.NewResponses(openapi3.WithStatus(404, named["NotFound"]), openapi3.WithStatus(503, named["Overloaded"]))
	}
	method := request.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if operation := item.Operations()[method]; operation != nil {
		return operation.Responses
	}
	return openapi3.NewResponses(openapi3.WithStatus(405, named["MethodNotAllowed"]), openapi3.WithStatus(503, named["Overloaded"]))
}

// pathItem is what the document says of an address; nil: nothing. The filter's own routers take an unclean path for the
// clean one.
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
