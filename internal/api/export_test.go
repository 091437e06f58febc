package api

import (
	"encoding/base64"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/receipt"
)

// ReceiptKeys are one key with this id.
func ReceiptKeys(t *testing.T, id string) *receipt.Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	require.NoError(t, os.WriteFile(path, []byte(id+" "+secret+"\n"), 0o600))
	keys, err := receipt.Load(path, time.Now)
	require.NoError(t, err)
	return keys
}

// ProblemBodies are the bodies of all problems in both languages. Real bodies of NOT_OPEN also have times.
func ProblemBodies() map[string]bool {
	bodies := map[string]bool{}
	all := append(slices.Collect(maps.Values(problems)), lineStaysFull, mayBeLost)
	for result := range questionDetails {
		all = append(all, refuse(result).problem(http.MethodGet))
	}
	for _, p := range all {
		for _, words := range []httpapi.Words{p.Korean, p.English} {
			bodies[string(httpapi.Marshal(problemDocument{Document: p.Document(words)}))] = true
		}
	}
	return bodies
}
