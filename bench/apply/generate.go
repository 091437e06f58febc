package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jajeong/jajeong/bench/line"
)

const generateVerb = "generate"

// generate reads a load from stdin, sends it, and writes its outcome to stdout.
func generate(stdin io.Reader, stdout io.Writer) error {
	var l load
	if err := json.NewDecoder(stdin).Decode(&l); err != nil {
		return fmt.Errorf("read load: %w", err)
	}
	o, err := l.send()
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(o)
}

// send opens all connections before it sends the first request.
func (l load) send() (outcome, error) {
	senders := make([]*sender, l.Connections)
	for i := range senders {
		first := l.FirstUser + uint64(i)*usersPerConnection
		senders[i] = &sender{load: l, place: i, first: first, user: first, wake: make(chan struct{}, 1)}
	}
	if l.Tokens != nil {
		if err := l.sign(senders); err != nil {
			return outcome{}, err
		}
	}
	deadline := time.Now().Add(l.Warmup + l.Length + grace)
	for i, s := range senders {
		s.line = line.New(l.Address, fmt.Sprintf("POST /v1/coupons/%d/applications", couponID), deadline)
		if err := s.line.Dial(); err != nil {
			return outcome{}, fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	s := schedule{began: time.Now()}
	s.from = s.began.Add(l.Warmup)
	s.until = s.from.Add(l.Length)
	var all sync.WaitGroup
	for _, sender := range senders {
		all.Go(func() { sender.run(s) })
	}
	if l.Rate > 0 {
		l.pace(s, senders)
	}
	all.Wait()
	return sum(l, senders), nil
}

// schedule is the start of a load and the interval whose results count.
type schedule struct{ began, from, until time.Time }

func (s schedule) counts(at time.Time) bool { return !at.Before(s.from) && at.Before(s.until) }

// sender is one connection and its results.
type sender struct {
	load
	place  int
	first  uint64
	user   uint64   // of the next request
	signed []string // tokens, from that of first on; empty: requests have X-User-ID
	line   *line.Line
	outcome
	wake                        chan struct{} // may have a wake-up too many
	fromDue, fromSent, refusals waits
}

func (s *sender) run(t schedule) {
	defer s.line.Close()
	for n := range usersPerConnection {
		var due time.Time
		if s.Rate > 0 {
			if due = s.due(t, n); !due.Before(t.until) {
				return
			}
			s.await(due)
		}
		sent := time.Now()
		if !sent.Before(t.until) {
			s.leave(t, n)
			return
		}
		if s.Rate == 0 {
			due = sent
		}
		r, err := s.ask()
		s.note(t, r, err, due, sent)
		if s.user++; s.Again > 0 && s.user == s.first+uint64(s.Again) {
			s.user = s.first
		}
		if len(s.signed) > 0 && s.user == s.first+uint64(len(s.signed)) {
			break
		}
	}
	s.fail("a connection has run out of users")
}

func (s *sender) ask() (line.Reply, error) {
	if len(s.signed) == 0 {
		return s.line.Ask(s.user)
	}
	return s.line.AskWith(s.signed[s.user-s.first])
}

// due is when request n of this connection is due. The connections take turns.
func (s *sender) due(t schedule, n int) time.Time {
	turn := float64(n*s.Connections + s.place)
	return t.began.Add(time.Duration(turn / s.Rate * float64(time.Second)))
}

func (s *sender) note(t schedule, r line.Reply, err error, due, sent time.Time) {
	now := time.Now()
	if err != nil {
		s.fail(err.Error())
		return
	}
	s.Answered++
	switch r.Status {
	case http.StatusOK, http.StatusAccepted:
		if r.Status == http.StatusAccepted {
			s.accept()
		}
		if t.counts(now) {
			s.Served++
		}
		if t.counts(due) {
			s.fromDue.note(now.Sub(due))
		}
		if t.counts(sent) {
			s.fromSent.note(now.Sub(sent))
		}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if t.counts(now) {
			s.Refused++
			s.refusals.note(now.Sub(sent))
			if !r.RetryAfter {
				s.Bare++
			}
		}
	default:
		s.fail(fmt.Sprintf("status %d", r.Status))
	}
}

func (s *sender) fail(why string) {
	s.Failed++
	s.Failure = cmp.Or(s.Failure, why)
}

func (s *sender) accept() {
	if last := len(s.Accepted) - 1; last >= 0 && s.Accepted[last].First+s.Accepted[last].Users == s.user {
		s.Accepted[last].Users++
		return
	}
	s.Accepted = append(s.Accepted, span{s.user, 1})
}

// leave counts the requests from n on that were due and are not sent. Each has waited until the end at least.
func (s *sender) leave(t schedule, n int) {
	if s.Rate == 0 {
		return
	}
	for due := s.due(t, n); due.Before(t.until); due = s.due(t, n) {
		if t.counts(due) {
			s.Unsent++
			s.fromDue.note(t.until.Sub(due))
		}
		n++
	}
}

func sum(l load, senders []*sender) outcome {
	o := outcome{Seconds: l.Length.Seconds()}
	var fromDue, fromSent, refusals waits
	for _, s := range senders {
		o.Served += s.Served
		o.Refused += s.Refused
		o.Bare += s.Bare
		o.Unsent += s.Unsent
		o.Failed += s.Failed
		o.Failure = cmp.Or(o.Failure, s.Failure)
		o.Answered += s.Answered
		o.Accepted = slices.Concat(o.Accepted, s.Accepted)
		fromDue = append(fromDue, s.fromDue...)
		fromSent = append(fromSent, s.fromSent...)
		refusals = append(refusals, s.refusals...)
	}
	o.FromDue, o.FromSent, o.Refusals = fromDue.quantiles(), fromSent.quantiles(), refusals.quantiles()
	return o
}
