package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Log is what a program writes. It may be read meanwhile.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The messages with the addresses of a program.
const (
	AdminOpen = "admin port open; the public ports open when this process is ready"
	Listening = "listening"
)

// Addresses are where a program listens: URLs.
type Addresses struct{ Apply, Live, Wallet, Admin string }

// Await waits for a line with this message, and returns its addresses.
func (l *Log) Await(t testing.TB, msg string) (at Addresses) {
	t.Helper()
	Eventually(t, "the program logs: "+msg, func() bool {
		for line := range strings.Lines(l.String()) {
			var event struct {
				Msg string
				Addresses
			}
			if json.Unmarshal([]byte(line), &event) == nil && event.Msg == msg {
				at = event.Addresses
				for _, one := range []*string{&at.Apply, &at.Live, &at.Wallet, &at.Admin} {
					*one = "http://" + *one
				}
				return true
			}
		}
		return false
	})
	return at
}

// Page is a page of an admin port. The status is 0 without a response.
func Page(ctx context.Context, url string) (status int, text string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	request.Close = true // a program that ends waits for no connection
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}
