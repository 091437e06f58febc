package signin

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// maxAnswer bounds an answer of the provider, in bytes.
const maxAnswer = 1 << 20

// answers reads the answers of the provider. It leaves keys out of the key set that cannot be read: go-oidc would
// refuse the whole set.
type answers struct{ keysAt atomic.Pointer[string] }

func (a *answers) readKeysAt(provider *oidc.Provider) error {
	var discovered struct {
		JWKSURL string `json:"jwks_uri"`
	}
	err := provider.Claims(&discovered)
	a.keysAt.Store(&discovered.JWKSURL)
	return err
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	first := r // the first of the requests that were redirected to this one
	for first.Response != nil {
		first = first.Response.Request
	}
	if at := a.keysAt.Load(); at != nil && first.URL.String() == *at {
		content = readableKeys(content)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	return response, nil
}

// readableKeys returns a key set without the members that are no keys. Anything else is returned as it is.
func readableKeys(content []byte) []byte {
	var given, readable struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(content, &given) != nil {
		return content
	}
	for _, key := range given.Keys {
		if json.Unmarshal(key, new(jose.JSONWebKey)) == nil {
			readable.Keys = append(readable.Keys, key)
		}
	}
	content, _ = json.Marshal(readable) // it was JSON before
	return content
}
