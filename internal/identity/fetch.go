package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	fetchTimeout = 5 * time.Second
	maxJWKS      = 1 << 20 // bytes

	// fetchInterval is how often keys are fetched. A key that is gone ends its tokens so much later at most.
	fetchInterval = time.Minute
	// seekInterval is the least time between two fetches, however many tokens have an unknown key.
	seekInterval = 10 * time.Second
	// firstInterval is the least time between two fetches while there are no keys.
	firstInterval = time.Second
)

// fetched are the keys of a JWKS server.
type fetched struct {
	url    string
	client *http.Client
	logger *zap.Logger
	now    func() time.Time

	current atomic.Pointer[[]key]
	at      atomic.Int64 // time of the last fetch that succeeded, in µs since 1970; 0: there was none
	problem atomic.Pointer[error]
	seek    chan struct{}

	content []byte // document with the current keys; only Watch uses it
}

func newFetched(address string, now func() time.Time) *fetched {
	f := &fetched{url: address, now: now, logger: zap.NewNop(), seek: make(chan struct{}, 1), client: &http.Client{
		Timeout:       fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	f.current.Store(new([]key))
	return f
}

func (f *fetched) Keys() []key { return *f.current.Load() }

func (f *fetched) Seek() {
	select {
	case f.seek <- struct{}{}:
	default: // the next fetch comes anyway
	}
}

// Watch fetches the keys again and again until ctx ends.
func (f *fetched) Watch(ctx context.Context, logger *zap.Logger) {
	f.logger = logger
	for ctx.Err() == nil {
		f.fetch(ctx)
		soon, later := seekInterval, fetchInterval
		if len(f.Keys()) == 0 {
			soon, later = firstInterval, firstInterval
		}
		if sleep.For(ctx, soon) != nil {
			return
		}
		select {
		case <-f.seek:
		case <-time.After(later - soon + rand.N(later/10+1)): // pods do not come all at once
		case <-ctx.Done():
		}
	}
}

// fetch replaces the keys. After an error, the earlier ones stay.
func (f *fetched) fetch(ctx context.Context) {
	content, err := f.get(ctx)
	var all []key
	if err == nil {
		if !bytes.Equal(content, f.content) || len(f.Keys()) == 0 {
			all, err = parseJWKS(content)
		} else {
			all = f.Keys()
		}
	}
	before := f.problem.Swap(&err)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		if before == nil || *before == nil || (*before).Error() != err.Error() {
			f.logger.Error("keys of tokens not fetched; the earlier keys stay in use", zap.Int("keys", len(f.Keys())),
				zap.Error(err))
		}
	default:
		f.at.Store(f.now().UnixMicro())
		changed := !bytes.Equal(content, f.content)
		f.content = content
		f.current.Store(&all)
		if changed || before != nil && *before != nil {
			f.logger.Info("keys of tokens fetched", zap.Int("keys", len(all)))
		}
	}
}

func (f *fetched) get(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := f.client.Do(request)
	if wrapped, ok := errors.AsType[*url.Error](err); ok { // its text has the query, which may be a secret
		err = fmt.Errorf("fetch %s: %w", f.shown(), wrapped.Err)
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: the server answered %s", f.shown(), response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxJWKS+1))
	if err == nil && len(content) > maxJWKS {
		err = fmt.Errorf("fetch %s: more than %d bytes", f.shown(), maxJWKS)
	}
	return content, err
}

// shown is the address without its query.
func (f *fetched) shown() string {
	address, _, _ := strings.Cut(f.url, "?")
	return address
}

// ready returns an error while no key is known.
func (f *fetched) ready() error {
	if len(f.Keys()) > 0 {
		return nil
	}
	if problem := f.problem.Load(); problem != nil && *problem != nil {
		return *problem
	}
	return errors.New("the keys of tokens are being fetched")
}
