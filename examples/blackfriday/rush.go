package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// application is one press of the button.
type application struct{ coupon, user uint64 }

// crowd is everybody in the order of chance, without the first of each coupon, who stand in line already.
func crowd(coupons []coupon) (all []application) {
	for _, c := range coupons {
		for user := c.firstUser + 1; user <= c.lastUser; user++ {
			all = append(all, application{c.id, user})
			if appliesTwice(user) {
				all = append(all, application{c.id, user})
			}
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// rush lets everybody apply and returns the place that each user was told. first is what was answered before.
func rush(ctx context.Context, s *screen, f *storefront, coupons []coupon, first []answer) (map[uint64]answer, error) {
	all := crowd(coupons)
	answers, took := make([]answer, len(all)), make([]time.Duration, len(all))
	s.say("%d people behind the first of each coupon press the button, some of them twice, over %d connections.", people-len(coupons), connections)
	bar := s.progress(len(all), "applying")
	began := time.Now()
	var next atomic.Int64
	work, workCtx := errgroup.WithContext(ctx)
	for i := range connections {
		p := f.pods[i%len(f.pods)]
		work.Go(func() error {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(all) {
					return nil
				}
				asked := time.Now()
				var err error
				if answers[n], err = f.applyUntilAnswered(workCtx, p, all[n].coupon, all[n].user); err != nil {
					return err
				}
				took[n] = time.Since(asked)
				bar.add()
			}
		})
	}
	err := work.Wait()
	seconds := time.Since(began).Seconds()
	bar.end()
	if err != nil {
		return nil, err
	}

	s.showAnswers(answers)
	slices.Sort(took)
	s.say("%d requests per second on this machine, client included; half of the answers within %.1f ms, 99%% within %.1f ms.",
		int(float64(len(all))/seconds), millis(took[len(took)/2]), millis(took[len(took)*99/100]))
	places, err := checkAnswers(append(slices.Clone(first), answers...))
	if err != nil {
		return nil, err
	}
	s.say("%d people stand in line. Whoever applied twice, on whichever pod, was told the same place and time twice.", len(places))
	return places, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (s *screen) showAnswers(answers []answer) {
	type kind struct {
		http    int
		outcome string
	}
	count := map[kind]int{}
	for _, a := range answers {
		count[kind{a.http, a.outcome()}]++
	}
	t := s.table("HTTP", "answer", "count")
	for _, k := range slices.SortedFunc(maps.Keys(count), func(a, b kind) int { return b.http - a.http }) {
		t.AppendRow([]any{k.http, k.outcome, count[k]})
	}
	t.Render()
}

// checkAnswers demands that everybody stands in line, and that who asked again heard of the same place.
func checkAnswers(answers []answer) (map[uint64]answer, error) {
	places := make(map[uint64]answer, people)
	for _, a := range answers {
		if !a.inLine() {
			return nil, fmt.Errorf("user %d wanted coupon %d and heard %d: %s", a.user, a.coupon, a.http, a.text)
		}
		before, again := places[a.user]
		switch {
		case !again:
			places[a.user] = a
		case !before.AppliedAt.Equal(a.AppliedAt) || before.Position != a.Position:
			return nil, fmt.Errorf("user %d was told two places:\n%s%s", a.user, before.text, a.text)
		case before.Status == "ACCEPTED" && a.Status == "ACCEPTED":
			return nil, fmt.Errorf("user %d was accepted twice:\n%s%s", a.user, before.text, a.text)
		}
	}
	if len(places) != people {
		return nil, fmt.Errorf("%d people stand in line, not %d", len(places), people)
	}
	return places, nil
}

// showFirst shows what an application looks like, and a refusal in both languages.
func showFirst(ctx context.Context, s *screen, f *storefront, first []answer) error {
	for _, a := range first {
		if a.coupon == first[0].coupon {
			s.showAnswer(a)
		}
	}
	const noCoupon = 999
	for _, language := range []string{"ko", "en"} {
		if err := f.showAsking(ctx, s, noCoupon, 1, language, "COUPON_NOT_FOUND"); err != nil {
			return err
		}
	}
	return nil
}

// showAsking applies once, shows the answer, and demands that it is a refusal with this code.
func (f *storefront) showAsking(ctx context.Context, s *screen, coupon, user uint64, language, code string) error {
	a, err := f.apply(ctx, f.pods[0], coupon, user, language)
	if err != nil {
		return fmt.Errorf("apply for coupon %d as user %d: %w", coupon, user, err)
	}
	s.showAnswer(a)
	if a.Code != code {
		return fmt.Errorf("user %d was to hear %s", user, code)
	}
	return nil
}

func (s *screen) showAnswer(a answer) {
	s.show(fmt.Sprintf("→ POST %s   X-User-ID: %d   Accept-Language: %s   (%s)\n← %d %s %s",
		applicationsPath(a.coupon), a.user, a.language, a.pod.name, a.http, http.StatusText(a.http), strings.TrimSpace(a.text)))
}
