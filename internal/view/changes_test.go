package view

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

var (
	changedAt = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	night     = time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
)

// added is the result of 5 seats added to an open coupon of 5, all issued.
func added(changes ...func(*couponadmin.Change)) *couponadmin.Change {
	c := &couponadmin.Change{Changed: true, At: changedAt, After: coupon.Coupon{ID: 7, Name: "c", TotalQuantity: 10,
		IssuedCount: 5, OpensAt: changedAt.Add(-time.Hour), ClosesAt: changedAt.Add(time.Hour),
		Cadence: coupon.Nightly}}
	for _, change := range changes {
		change(c)
	}
	c.Before = c.After
	c.Before.TotalQuantity = 5
	return c
}

func immediate(c *couponadmin.Change)   { c.After.Cadence = coupon.Immediate }
func soldOut(c *couponadmin.Change)     { c.SoldOut = true }
func closed(c *couponadmin.Change)      { c.After.ClosesAt = changedAt }
func frozen(c *couponadmin.Change)      { c.After.Frozen = true }
func notSelected(c *couponadmin.Change) { c.NotSelected = 3 }
func nobodyHolds(c *couponadmin.Change) { c.After.IssuedCount = 0 }

// While it runs, settle serve settles an immediate coupon within seconds; only nightly runs settle its DLQ.
func TestChanges_SayWhoSettles(t *testing.T) {
	t.Parallel()
	const serve, nightly, byHand, unfreeze = "settle serve", "15:00:00", "settle run --coupon 7", "unfreeze 7"
	type changes = []func(*couponadmin.Change)
	type phrases = []string
	for name, c := range map[string]struct {
		changes      changes
		seats, opens phrases // what add-seats says, and what resume says
	}{
		"nightly":               {nil, phrases{nightly}, nil},
		"nightly, sold out":     {changes{soldOut}, phrases{nightly, byHand}, phrases{byHand}},
		"nightly, not selected": {changes{soldOut, notSelected}, phrases{nightly, byHand}, phrases{byHand}},
		"nightly, closed":       {changes{closed}, phrases{nightly}, nil},
		"immediate":             {changes{immediate}, phrases{serve, nightly}, nil},
		"immediate, sold out":   {changes{immediate, soldOut}, phrases{serve, nightly}, phrases{serve}},
		"immediate, not selected": {changes{immediate, soldOut, notSelected}, phrases{serve, nightly},
			phrases{serve}},
		"immediate, closed":               {changes{immediate, closed}, phrases{serve, nightly}, nil},
		"immediate, closed, sold out":     {changes{immediate, closed, soldOut}, phrases{serve, nightly}, nil},
		"immediate, closed, not selected": {changes{immediate, closed, notSelected}, phrases{serve, nightly}, nil},
		"immediate, frozen": {changes{immediate, soldOut, notSelected, frozen}, phrases{unfreeze},
			phrases{unfreeze}},
		"immediate, nobody holds it": {changes{immediate, soldOut, nobodyHolds}, phrases{nightly, byHand},
			phrases{byHand}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := added(c.changes...)
			for _, language := range []text.Language{text.Korean, text.English} {
				for what, test := range map[string]struct {
					want  []string
					print func(View)
				}{
					"add-seats": {c.seats, func(v View) { v.SeatsChanged(made, night) }},
					"resume":    {c.opens, func(v View) { v.Resumed(made) }},
				} {
					var printed bytes.Buffer
					test.print(View{Locale: output.Locale{Language: language, Zone: time.UTC}, W: &printed})
					for _, phrase := range []string{serve, nightly, byHand, unfreeze} {
						require.Equal(t, slices.Contains(test.want, phrase), strings.Contains(printed.String(), phrase),
							"%s: %s in %s", what, phrase, printed.String())
					}
				}
			}
		})
	}
}
