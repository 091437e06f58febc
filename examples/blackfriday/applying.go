package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	connections    = 64
	requestWithin  = 5 * time.Second  // the API answers within two
	answerWithin   = 20 * time.Second // with all repetitions
	retryInterval  = 50 * time.Millisecond
	maxAnswerBytes = 4 << 10
)

var client = &http.Client{
	Timeout:   requestWithin,
	Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections},
}

// application is one request to apply.
type application struct {
	coupon   int
	user     uint64
	language string // of the message in a refusal; empty: Korean
}

// answer is the answer of the API to an application.
type answer struct {
	application
	http      int
	outcome   string // ACCEPTED, DUPLICATE or the code of a refusal
	Title     string // of a refusal
	Position  int
	AppliedAt time.Time
	body      string
}

func (a answer) accepted() bool { return a.http == http.StatusAccepted || a.http == http.StatusOK }

func (a application) path() string { return fmt.Sprintf("/v1/coupons/%d/applications", a.coupon) }

// apply sends an application until it is answered. A lost answer and an overloaded pod are safe to try again: an
// accepted application keeps its position, and the answer is then DUPLICATE.
func (p *pod) apply(ctx context.Context, a application) (answer, error) {
	return p.ask(ctx, http.MethodPost, a.path(), a)
}

// ask sends a request about an application until it is answered.
func (p *pod) ask(ctx context.Context, method, path string, a application) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no answer within %v", answerWithin))
	defer cancel()
	for {
		got, err := p.askOnce(ctx, method, path, a)
		if err == nil && got.http != http.StatusServiceUnavailable && got.http != http.StatusTooManyRequests {
			return got, nil
		}
		if err == nil {
			err = fmt.Errorf("answered %d: %s", got.http, got.body)
		}
		select {
		case <-ctx.Done():
			return got, fmt.Errorf("%s %s as user %d: %w; last attempt: %w", method, path, a.user, context.Cause(ctx),
				err)
		case <-time.After(retryInterval):
		}
	}
}

func (p *pod) askOnce(ctx context.Context, method, path string, a application) (got answer, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.Apply+path, nil)
	if err != nil {
		return got, err
	}
	request.Header.Set("X-User-ID", strconv.FormatUint(a.user, 10)) // in production the gateway sets it
	request.Header.Set("Accept-Language", a.language)
	response, err := client.Do(request)
	if err != nil {
		return got, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return got, err
	}
	var fields struct {
		answer
		Status any // a word when accepted, a number in a refusal
		Code   string
	}
	if err := json.Unmarshal(body, &fields); err != nil {
		return got, fmt.Errorf("read answer %d to user %d: %w", response.StatusCode, a.user, err)
	}
	got = fields.answer
	got.application, got.http, got.body = a, response.StatusCode, strings.TrimSpace(string(body))
	if got.outcome = fields.Code; fields.Code == "" {
		got.outcome = fmt.Sprint(fields.Status)
	}
	return got, nil
}

// showFirst starts the pods and sends the first application for each coupon to each of them. The pods answer as soon as
// they are ready.
func (d *demo) showFirst(ctx context.Context) error {
	d.answers = make(map[uint64]answer, people)
	for range podCount {
		if err := d.startPod(ctx); err != nil {
			return err
		}
	}
	for _, c := range d.coupons {
		for _, p := range d.pods {
			a, err := p.apply(ctx, application{c.id, c.firstUser, string(d.language)})
			if err != nil {
				return err
			}
			if err := d.record(a); err != nil {
				return err
			}
			if c.id == d.coupons[0].id {
				d.showAnswer(a, p.name)
			}
		}
	}
	d.say(text.DemoSamePosition)
	return nil
}

// showAnswer shows an application at a pod, and its answer.
func (d *demo) showAnswer(a answer, pod string) {
	d.write(fmt.Sprintf("→ POST %s   X-User-ID: %d   (%s)\n", a.path(), a.user, pod))
	d.sayJSON(fmt.Sprintf("← %d ", a.http), a.body)
}

// record keeps the first answer to a user, and demands that later answers agree with it.
func (d *demo) record(a answer) error {
	first, again := d.answers[a.user]
	switch {
	case !a.accepted():
		return fmt.Errorf("user %d applied for coupon %d and was refused: %d %s", a.user, a.coupon, a.http, a.body)
	case !again:
		d.answers[a.user] = a
	case !first.AppliedAt.Equal(a.AppliedAt) || first.Position != a.Position:
		return fmt.Errorf("user %d has two positions:\n%s\n%s", a.user, first.body, a.body)
	case first.outcome == "ACCEPTED" && a.outcome == "ACCEPTED":
		return fmt.Errorf("user %d was accepted twice:\n%s\n%s", a.user, first.body, a.body)
	}
	return nil
}

// applications are those of everybody but the first user of each coupon, in random order.
func (d *demo) applications() (all []application) {
	for _, c := range d.coupons {
		for user := c.firstUser + 1; user <= c.lastUser; user++ {
			all = append(all, application{coupon: c.id, user: user})
			if appliesTwice(user) {
				all = append(all, application{coupon: c.id, user: user})
			}
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// asked is a request with its answer.
type asked struct {
	answer
	sent time.Time
	took time.Duration
}

// askAll sends requests by all connections, and returns the answers in the order of the requests.
func (d *demo) askAll(ctx context.Context, all []application,
	send func(context.Context, *pod, application) (answer, error)) ([]asked, error) {
	answers := make([]asked, len(all))
	var next, done atomic.Int64
	work, workCtx := errgroup.WithContext(ctx)
	for i := range connections {
		p := d.pods[i%len(d.pods)]
		work.Go(func() (err error) {
			for n := next.Add(1) - 1; n < int64(len(all)); n = next.Add(1) - 1 {
				answers[n].sent = time.Now()
				if answers[n].answer, err = send(workCtx, p, all[n]); err != nil {
					return err
				}
				answers[n].took = time.Since(answers[n].sent)
				d.progress(int(done.Add(1)), len(all))
			}
			return nil
		})
	}
	err := work.Wait()
	d.write("")
	return answers, err
}

func applyBy(ctx context.Context, p *pod, a application) (answer, error) { return p.apply(ctx, a) }

func (d *demo) showApplications(ctx context.Context) error {
	all := d.applications()
	began := time.Now()
	answers, err := d.askAll(ctx, all, applyBy)
	took := time.Since(began)
	if err != nil {
		return err
	}
	count, latencies := map[string]int{}, []time.Duration{}
	for _, a := range answers {
		if err := d.record(a.answer); err != nil {
			return err
		}
		count[a.outcome]++
		latencies = append(latencies, a.took)
	}
	if len(d.answers) != people {
		return fmt.Errorf("%d people have a position, not %d", len(d.answers), people)
	}
	d.say(text.DemoRate, len(all), connections, int(float64(len(all))/took.Seconds()))
	half, most := percentiles(latencies)
	d.say(text.DemoAnswerTimes, half, most)
	d.say(text.DemoOnePosition, count["ACCEPTED"], count["DUPLICATE"], people)
	return nil
}

// percentiles are the median and the 99th percentile, in ms.
func percentiles(took []time.Duration) (half, most string) {
	slices.Sort(took)
	return millis(took[len(took)/2]), millis(took[len(took)*99/100])
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
