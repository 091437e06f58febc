// Package applicants sends applications to a server from a process of its own, so that the scheduler of Go lets none
// wait beside what else the bench does.
package applicants

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/load"
)

// Load describes applications for a coupon.
type Load struct {
	Address     string
	Coupon      int
	Connections int
	Rate        float64 // applications that are due per second; 0: each connection applies after an answer
	First       uint64  // user id; all ids have ten digits
	// So many users of each connection come again and again; 0: every application is from a new user.
	Again  int
	Tokens *Mint // nil: requests have X-User-ID
}

// FirstUser is above every user of a filled line.
const FirstUser = 5_000_000_000

// interval is what the bench tells at its end, in ns since 1970. Applications that were due in it count.
type interval struct{ From, To int64 }

// Outcome has the results of a load.
type Outcome struct {
	Seconds  float64 // of the interval
	Served   int     // accepted, answered in the interval
	Refused  int     // 429 or 503, answered in it
	Bare     int     // of the refused ones, those without Retry-After
	Unsent   int     // due in it and not sent by its end
	Failed   int     // anything else, at any time
	Failure  string  // the first
	Answered int     // all answers, at any time

	FromDue  load.Quantiles // accepted applications, and unsent ones up to the end
	FromSent load.Quantiles // accepted applications
	Refusals load.Quantiles // refused applications, from the time they were sent

	Accepted []Span // accepted users, at any time

	CPU time.Duration // of the applicants
}

// Rate is how many applications a second were accepted.
func (o Outcome) Rate() float64 { return float64(o.Served) / o.Seconds }

// NotAccepted is how many applications were not.
func (o Outcome) NotAccepted() int { return o.Refused + o.Failed }

// Fault is the error of a load that a server should accept.
func (o Outcome) Fault() error {
	if o.NotAccepted() > 0 {
		return fmt.Errorf("%d applications are refused and %d failed, the first: %s", o.Refused, o.Failed, o.Failure)
	}
	return nil
}

// Span is a range of users: N from First on.
type Span struct{ First, N uint64 }

// answered is one answer.
type answered struct {
	user            uint64
	due, sent, read time.Time
	status          int
	bare            bool
	failure         string
}

const (
	role = "applicants"
	// lineLives bounds a load.
	lineLives = 10 * time.Minute
)

// Roles is the process of the applicants.
var Roles = stage.Roles{role: work}

// work reads a load and sends it until it reads the interval that counts.
func work(ctx context.Context, in *json.Decoder, stdout, _ io.Writer) error {
	var l Load
	if err := in.Decode(&l); err != nil {
		return fmt.Errorf("read load: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	var counts interval
	end := make(chan error, 1)
	began := func() error {
		go func() {
			end <- in.Decode(&counts)
			stop()
		}()
		return json.NewEncoder(stdout).Encode(true) // ready
	}
	answers, sent, err := l.send(ctx, began)
	if err != nil {
		return err
	}
	if err := <-end; err != nil {
		return fmt.Errorf("read interval: %w", err)
	}
	return json.NewEncoder(stdout).Encode(l.sum(answers, sent, time.Unix(0, counts.From), time.Unix(0, counts.To)))
}

// send opens all connections and signs all tokens before it sends the first application.
func (l Load) send(ctx context.Context, began func() error) (all []answered, sent load.Sent, err error) {
	lines := make([]*load.Line, l.Connections)
	until := time.Now().Add(lineLives)
	tokens, err := l.sign()
	if err != nil {
		return nil, sent, err
	}
	for i := range lines {
		lines[i] = load.NewLine(l.Address, fmt.Sprintf("POST /v1/coupons/%d/applications", l.Coupon), until)
		if err := lines[i].Dial(); err != nil {
			return nil, sent, fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	if err := began(); err != nil {
		return nil, sent, err
	}
	var times load.Times
	if l.Rate > 0 {
		times = load.Every(l.Rate)
	}
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // one more for the goroutine that paces, which mostly sleeps
	var mu sync.Mutex
	sent = load.Run(ctx, times, l.Connections, func(place int, requests iter.Seq[load.Request]) {
		line, own := lines[place], []answered(nil)
		defer line.Close()
		for r := range requests {
			n := r.N
			if l.Again > 0 {
				n %= l.Again * l.Connections
			}
			if tokens != nil && n >= len(tokens) {
				own = append(own, answered{failure: fmt.Sprintf("all %d tokens are used", len(tokens))})
				break
			}
			own = append(own, ask(line, l.First+uint64(n), r.Due, tokens, n))
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, own...)
	})
	return all, sent, nil
}

func ask(line *load.Line, user uint64, due time.Time, tokens []string, n int) answered {
	a := answered{user: user, due: due, sent: time.Now()}
	var r load.Reply
	var err error
	if tokens == nil {
		r, err = line.Ask(user)
	} else {
		r, err = line.AskWith(tokens[n])
	}
	a.read, a.status, a.bare = time.Now(), r.Status, !r.RetryAfter
	if err != nil {
		a.failure = err.Error()
	}
	return a
}

func (l Load) sum(answers []answered, sent load.Sent, from, to time.Time) (o Outcome) {
	during := func(at time.Time) bool { return !at.Before(from) && at.Before(to) }
	o.Seconds = to.Sub(from).Seconds()
	var fromDue, fromSent, refusals load.Waits
	var accepted []uint64
	for _, a := range answers {
		counts := during(a.read)
		switch {
		case a.failure != "":
			o.Failed++
			o.Failure = cmp.Or(o.Failure, a.failure)
			continue
		case a.status == http.StatusOK, a.status == http.StatusAccepted:
			if a.status == http.StatusAccepted {
				accepted = append(accepted, a.user)
			}
			if counts {
				o.Served++
			}
			if during(a.due) {
				fromDue = append(fromDue, a.read.Sub(a.due))
			}
			if during(a.sent) {
				fromSent = append(fromSent, a.read.Sub(a.sent))
			}
		case a.status == http.StatusTooManyRequests, a.status == http.StatusServiceUnavailable:
			o.Failure = cmp.Or(o.Failure, fmt.Sprint("status ", a.status))
			if counts {
				o.Refused++
				refusals = append(refusals, a.read.Sub(a.sent))
				if a.bare {
					o.Bare++
				}
			}
		default:
			o.Failed++
			o.Failure = cmp.Or(o.Failure, fmt.Sprint("status ", a.status))
		}
		o.Answered++
	}
	for n := sent.Begun; n < sent.Due; n++ {
		at, _ := load.Every(l.Rate)(n)
		if due := sent.Began.Add(at); during(due) {
			o.Unsent++
			fromDue = append(fromDue, to.Sub(due))
		}
	}
	o.FromDue, o.FromSent, o.Refusals = fromDue.Quantiles(), fromSent.Quantiles(), refusals.Quantiles()
	o.Accepted = spans(accepted)
	return o
}

// spans joins neighbours.
func spans(users []uint64) (all []Span) {
	slices.Sort(users)
	for _, user := range users {
		if last := len(all) - 1; last >= 0 && all[last].First+all[last].N == user {
			all[last].N++
		} else {
			all = append(all, Span{user, 1})
		}
	}
	return all
}

// During sends the load while do works, which begins after the warm-up. What was due while do worked counts.
func (l Load) During(ctx context.Context, s *stage.Stage, warmUp time.Duration, do func() error) (o Outcome,
	err error) {
	own := *s
	own.Cores = "" // applicants are no servers
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, in, err := own.Role(ctx, role, l)
	if err != nil {
		return o, err
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return o, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return o, err
	}
	out, ready := json.NewDecoder(pipe), false
	if err = out.Decode(&ready); err == nil {
		err = stage.Wait(ctx, warmUp)
	}
	counts := interval{From: time.Now().UnixNano()}
	if err == nil {
		err = do()
	}
	counts.To = time.Now().UnixNano()
	if err == nil {
		err = json.NewEncoder(in).Encode(counts)
	}
	if err == nil {
		err = out.Decode(&o)
	}
	if err != nil {
		cancel()
	}
	_ = in.Close()
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	if err != nil {
		return o, fmt.Errorf("applicants: %w", err)
	}
	o.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return o, nil
}

// openWithin is how long a server may take until it knows its coupons.
const openWithin = 30 * time.Second

// AwaitOpen waits until a server has accepted an application of the user First-1.
func (l Load) AwaitOpen(ctx context.Context) error {
	line := load.NewLine(l.Address, fmt.Sprintf("POST /v1/coupons/%d/applications", l.Coupon),
		time.Now().Add(lineLives))
	defer line.Close()
	var tokens []string
	if l.Tokens != nil {
		var err error
		if tokens, err = l.Tokens.Sign(l.First-1, 1); err != nil {
			return err
		}
	}
	return stage.Until(ctx, "accept an application", openWithin, func() (bool, error) {
		a := ask(line, l.First-1, time.Now(), tokens, 0)
		return a.status == http.StatusAccepted || a.status == http.StatusOK, nil
	})
}
