package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/overview"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
)

type tonightPage struct {
	Next, Last  string
	LastHref    string
	Table       *tableOf
	Jobs        []link
	Bad         []string
	NothingOpen bool
}

func (c *Console) tonight(w http.ResponseWriter, r *http.Request) {
	locale, err := c.locale(r.Context(), language(r))
	if err != nil {
		c.failed(w, r, err)
		return
	}
	t, err := c.Reads.Tonight(r.Context())
	if err != nil {
		c.failed(w, r, err)
		return
	}
	p := c.page(r, language(r).Sprintf(text.ConsoleTonight))
	is := &tonightPage{Next: locale.Instant(t.Next), NothingOpen: len(t.Coupons) == 0}
	if t.Last != nil {
		is.Last = p.say(text.ConsoleLastNight, t.Last.ID, locale.Instant(t.Last.Cutoff),
			output.Word(p.Language, t.Last.Status), t.Last.Issued)
		is.LastHref = fmt.Sprint("/runs/", t.Last.ID)
		if t.Last.Status != coupon.RunSucceeded && t.Last.Status != coupon.RunRunning {
			is.Bad = append(is.Bad, p.say(text.ConsoleNightBad))
		}
	}
	if t.Unread != nil {
		is.Bad = append(is.Bad, p.say(text.ConsoleRedisAway, output.Printable(text.In(p.Language, t.Unread))))
	}
	is.Table = c.due(p, locale, t.Coupons, is)
	if t.ToApprove > 0 && p.Person.May(signin.Approve) {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleToApprove, t.ToApprove), Href: "/approvals?open=on"})
	}
	if t.Cut {
		p.Lead = append(p.Lead, p.say(text.ConsoleMoreDue, len(t.Coupons)))
	}
	if is.Jobs, err = c.lastJobs(r.Context(), p, locale); err != nil {
		c.failed(w, r, err)
		return
	}
	p.Tonight, p.Command = is, "settle coupon list; settle runs --trigger=CRON --limit=1"
	c.change(p, "run")
	c.show(w, http.StatusOK, p)
}

const maxShownJobs = 10

func (c *Console) due(p *page, locale output.Locale, all []overview.Due, is *tonightPage) *tableOf {
	t := &tableOf{Caption: p.say(text.ConsoleDue),
		Header: p.cells(locale.Cells(text.ColumnCoupon, text.ColumnName, text.ColumnStatus, text.ColumnSeatsLeft,
			text.ColumnWaiting, text.ColumnUnderReview, text.ColumnGap, text.ConsoleJournal))}
	for _, d := range all {
		copied := map[overview.Journal]string{overview.JournalUnknown: "?",
			overview.JournalNone:   p.say(text.ConsoleJournalNone),
			overview.JournalBehind: p.say(text.ConsoleJournalBehind, d.Behind.Round(time.Millisecond)),
			overview.JournalWhole:  p.say(text.ConsoleJournalWhole)}
		status := output.Word(p.Language, d.Status)
		if d.Frozen {
			status += p.say(text.FrozenMark)
		}
		if d.Missing != nil && *d.Missing > 0 {
			is.Bad = append(is.Bad, p.say(text.ConsoleGap, d.ID, output.Printable(d.Name), *d.Missing))
		}
		if open := c.Reads.Now().Sub(d.ClosesAt); open > coupon.KeptOpenAfter {
			is.Bad = append(is.Bad, p.say(text.ConsoleKeptOpen, d.ID, output.Printable(d.Name), int(open.Hours()/24)))
		}
		t.Rows = append(t.Rows, p.cells([]any{d.ID, d.Name, status, d.Free(), output.Known(d.Waiting, "?"),
			output.Known(d.DLQ, "?"), output.Known(d.Missing, "?"), copied[d.Journal]}))
	}
	return t
}

// Size of the curve on a coupon's page, in units of its svg.
const (
	curveWidth  = 600
	curveHeight = 120
)

// line adds the arrivals over time to a coupon's page. It is left out if it cannot be counted in time.
func (c *Console) line(ctx context.Context, p *page, id uint64) {
	ctx, cancel := context.WithTimeout(ctx, lineTimeout)
	defer cancel()
	locale, unknown := c.locale(ctx, p.Language)
	t, err := c.Reads.Timeline(ctx, coupon.CouponID(id))
	if err != nil || unknown != nil || len(t.Counts) == 0 {
		return
	}
	highest, sum := int64(1), int64(0)
	for _, n := range t.Counts {
		highest, sum = max(highest, n), sum+n
	}
	if sum == 0 {
		return
	}
	var points []string
	for i, n := range t.Counts {
		x := float64(i) * curveWidth / float64(max(len(t.Counts)-1, 1))
		y := curveHeight - float64(n)*curveHeight/float64(highest)
		points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
	}
	p.Curve = &curve{Points: strings.Join(points, " "), From: locale.Instant(t.From), To: locale.Instant(t.To),
		Caption: p.say(text.ConsoleCurve, output.Grouped(fmt.Sprint(sum)), output.Grouped(fmt.Sprint(highest)), t.Part)}
}

const lineTimeout = 5 * time.Second

type curve struct{ Points, From, To, Caption string }
