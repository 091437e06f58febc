package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Bounds of the crowd's side.
const (
	connections    = 64
	requestWithin  = 5 * time.Second // the API answers within two
	openWithin     = 20 * time.Second
	openInterval   = 50 * time.Millisecond
	applyAttempts  = 5
	longestRefusal = 2 * time.Second // of what Retry-After asks for
	maxAnswerBytes = 4 << 10
)

// answer is what one application hears: a place in line, or a problem document with a code.
type answer struct {
	Status    string // ACCEPTED or DUPLICATE
	Code      string // of a refusal
	Position  int64
	AppliedAt time.Time

	pod          *pod
	coupon, user uint64
	language     string
	http         int
	retryAfter   time.Duration
	text         string // as it came
}

func (a answer) inLine() bool { return a.http == http.StatusAccepted || a.http == http.StatusOK }

func (a answer) outcome() string {
	if a.inLine() {
		return a.Status
	}
	return a.Code
}

// storefront sends people to the pods.
type storefront struct {
	client *http.Client
	pods   []*pod
}

func newStorefront(pods []*pod) *storefront {
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	return &storefront{client: &http.Client{Transport: transport, Timeout: requestWithin}, pods: pods}
}

func applicationsPath(coupon uint64) string {
	return fmt.Sprintf("/v1/coupons/%d/applications", coupon)
}

// apply asks once. Language is for the words of a refusal: ko or en.
func (f *storefront) apply(ctx context.Context, p *pod, coupon, user uint64, language string) (a answer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.apply+applicationsPath(coupon), nil)
	if err != nil {
		return a, err
	}
	request.Header.Set("X-User-ID", strconv.FormatUint(user, 10)) // a gateway's task
	request.Header.Set("Accept-Language", language)
	response, err := f.client.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return a, err
	}
	a = answer{pod: p, coupon: coupon, user: user, language: language, http: response.StatusCode, text: string(body)}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 without one
	a.retryAfter = time.Duration(seconds) * time.Second
	if a.inLine() {
		err = json.Unmarshal(body, &a)
	} else {
		var problem struct{ Code string } // its status is a number
		err = json.Unmarshal(body, &problem)
		a.Code = problem.Code
	}
	if err != nil {
		return a, fmt.Errorf("read answer %d to user %d: %w", a.http, user, err)
	}
	return a, nil
}

// applyUntilAnswered asks again where the API says so, and where an answer was lost: whoever was accepted the first
// time keeps that place and hears DUPLICATE.
func (f *storefront) applyUntilAnswered(ctx context.Context, p *pod, coupon, user uint64) (answer, error) {
	for attempt := 1; ; attempt++ {
		a, err := f.apply(ctx, p, coupon, user, "ko")
		again := err != nil || a.http == http.StatusServiceUnavailable || a.http == http.StatusTooManyRequests
		switch {
		case ctx.Err() != nil:
			return a, context.Cause(ctx)
		case !again:
			return a, nil
		case attempt == applyAttempts && err != nil:
			return a, fmt.Errorf("apply for coupon %d as user %d: %w", coupon, user, err)
		case attempt == applyAttempts:
			return a, fmt.Errorf("apply for coupon %d as user %d: answered %d: %s", coupon, user, a.http, a.text)
		}
		if err := wait(ctx, min(max(a.retryAfter, openInterval), longestRefusal)); err != nil {
			return a, err
		}
	}
}

// awaitOpen waits until every pod is ready and knows every coupon. What it asks with is the first real application for
// each coupon: the second pod calls it a duplicate. It returns what was answered, pod by pod.
func (f *storefront) awaitOpen(ctx context.Context, coupons []coupon) (answers []answer, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openWithin, fmt.Errorf("the doors did not open within %v", openWithin))
	defer cancel()
	for _, p := range f.pods {
		if err := until(ctx, func() error { return f.ready(ctx, p) }); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		for _, c := range coupons {
			err := until(ctx, func() error {
				a, err := f.apply(ctx, p, c.id, c.firstUser, "ko")
				switch {
				case err != nil:
					return err
				case !a.inLine():
					return fmt.Errorf("%d: %s", a.http, a.text)
				}
				answers = append(answers, a)
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("%s, coupon %d: %w", p.name, c.id, err)
			}
		}
	}
	return answers, nil
}

func (f *storefront) ready(ctx context.Context, p *pod) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.admin+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("readyz: %d: %s", response.StatusCode, body)
	}
	return err
}

// until asks again and again until there is no error.
func until(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if waitErr := wait(ctx, openInterval); waitErr != nil {
			return fmt.Errorf("%w; last answer: %w", waitErr, err)
		}
	}
}

// wait sleeps, and returns the cause of ctx when that ends first.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
