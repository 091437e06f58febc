package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/text"
)

type purgeCmd struct {
	Before        string `placeholder:"DATE"`
	AfterDays     int    `name:"after-days" env:"PURGE_AFTER_DAYS" placeholder:"DAYS"`
	DryRun        bool
	operatorFlags `embed:""`
	pinFlags      `embed:""`
	Yes           bool
	Output        string `enum:"table,json" default:"table"`
	pushFlags     `embed:""`
}

const maxPurgeDays = 36_500

// byAge reports whether the setting says what goes, and not a person.
func (c *purgeCmd) byAge() bool { return c.Before == "" }

// before returns the midnight that begins the date.
func (c *purgeCmd) before(zone *time.Location, now time.Time) (time.Time, error) {
	if c.byAge() {
		day := now.In(zone).AddDate(0, 0, -c.AfterDays)
		return time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, zone), nil
	}
	from, _, err := calendar.Day(c.Before, zone)
	if err != nil {
		return from, text.UsageErrorf(text.WrongDate, "--before", c.Before)
	}
	return from, after1970("--before", c.Before, from)
}

func (c *purgeCmd) Validate() error {
	if c.byAge() {
		named := c.DryRun || c.Operator == "" && c.Reason == ""
		return errors.Join(refuse(c.AfterDays == 0, text.PurgeNeedsAge),
			about("--after-days", refuse(c.AfterDays != 0 && (c.AfterDays < privacy.MinPurgeDays ||
				c.AfterDays > maxPurgeDays), text.WrongPurgeDays, privacy.MinPurgeDays, maxPurgeDays)),
			c.operatorFlags.checkUnless(named), c.pushFlags.wrong())
	}
	_, err := c.before(time.UTC, time.Time{})
	return errors.Join(about("--before", err), c.operatorFlags.checkUnless(c.DryRun), c.pushFlags.wrong())
}

// by is who purges and why. By the setting, it is the program.
func (c *purgeCmd) by(p *program) audit.Origin {
	origin := p.origin(c.operatorFlags)
	if c.byAge() && origin.Actor == "" {
		origin.Actor, origin.Reason = audit.NightlyActor, fmt.Sprintf("PURGE_AFTER_DAYS=%d", c.AfterDays)
	}
	return origin
}

// push pushes what a purge by the setting has left, and when it ended.
func (c *purgeCmd) push(p *program, before time.Time, left []privacy.PurgeCandidate) {
	if !c.byAge() || c.DryRun {
		return
	}
	stays := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "jajeong_purge_left_coupons",
		Help: "Coupons that are old enough to be purged, and stay, by reason; NOT_FINALISED for 30 days more.",
	}, []string{"why"})
	for _, why := range []privacy.WhyLeft{privacy.NotFinalised, privacy.CleanUpPending, privacy.StillValid,
		privacy.FoundWrong, privacy.InRedis} {
		stays.WithLabelValues(string(why))
	}
	for _, one := range left { // a coupon that closed in the evening is finalised after midnight
		if one.Why != privacy.NotFinalised || before.Sub(one.ClosesAt) > coupon.KeptOpenAfter {
			stays.WithLabelValues(string(one.Why)).Inc()
		}
	}
	success := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "jajeong_purge_last_success_timestamp_seconds",
		Help: "Time of the last purge by PURGE_AFTER_DAYS that ended.",
	})
	success.SetToCurrentTime()
	c.pusher(ops.PurgeJob, p.logger, stays, success).Push()
}

// purged is the JSON of settle purge.
type purged struct {
	Before    time.Time                `json:"before"`
	DryRun    bool                     `json:"dryRun"`
	Digest    string                   `json:"digest"` // digest of the plan, as --expect-digest takes it
	Continued []coupon.CouponID        `json:"continued"`
	Taken     []privacy.PurgeCandidate `json:"taken"`
	Purged    []coupon.CouponID        `json:"purged"`
	Left      []privacy.PurgeCandidate `json:"left"`
}

func (c *purgeCmd) run(ctx context.Context, p *program) error {
	s, err := p.openPurging(ctx, c.DryRun)
	if err != nil {
		return err
	}
	defer s.Close()
	now := p.Now().UTC().Truncate(time.Microsecond)
	before, _ := c.before(p.Zone, now) // no error: Validate has read --before
	db := mysqltx.New(s.MySQL)
	plan, err := privacy.PlanPurge(ctx, db, s.store, before, now)
	if err == nil {
		err = c.expected(plan.Digest())
	}
	if err != nil {
		return p.printRefusal(err)
	}
	result := purged{Before: plan.Before, DryRun: c.DryRun, Digest: plan.Digest(),
		Continued: plan.Continued, Taken: plan.Taken, Purged: []coupon.CouponID{}, Left: plan.Left}
	if c.Output != "json" {
		p.view().PurgePlan(plan)
	}
	coupons := len(plan.Continued) + len(plan.Taken)
	if c.DryRun && c.Output != "json" && coupons > 0 {
		output.Digest(p.Stdout, plan.Digest())
	}
	if !c.DryRun && coupons > 0 {
		needsYes, question := text.UsageErrorf(text.PurgeNeedsYes, coupons), p.Sprintf(text.AskPurge, coupons)
		if may, err := p.confirm(ctx, c.Yes, needsYes, question); err != nil || !may {
			return err
		}
		purger := &privacy.Purger{DB: db, Queue: s.store, Origin: c.by(p)}
		var done *privacy.PurgeResult
		done, err = purger.Purge(ctx, plan)
		result.Purged, result.Left = done.Purged, done.Left
		if err != nil && ctx.Err() != nil {
			err = text.RetryableErrorf(text.PurgeStopped, len(done.Purged), context.Cause(ctx))
		}
		if c.Output != "json" {
			p.view().Purged(plan, done)
		}
	}
	if err == nil {
		c.push(p, before, result.Left)
	}
	if c.Output == "json" {
		err = errors.Join(err, output.JSON(p.Stdout, result))
	}
	return err
}

// openPurging opens the servers. A preview writes nothing, so any setup of MySQL will do for it.
func (p *program) openPurging(ctx context.Context, dryRun bool) (*servers, error) {
	if dryRun {
		return p.open(ctx)
	}
	return p.openWriting(ctx)
}

// notPurged returns an error with the summary of a coupon that was purged, or is being purged.
func (p *program) notPurged(ctx context.Context, s *servers, id coupon.CouponID) error {
	purged, err := privacy.ReadPurged(ctx, s.MySQL, id)
	if err == nil && purged != nil {
		err = purged.Err(p.Instant(purged.PurgedAt))
	}
	return err
}

func (c *couponShowCmd) showPurged(p *program, purged *privacy.PurgedCoupon) error {
	if c.Output == "json" {
		return output.JSON(p.Stdout, struct {
			Purged *privacy.PurgedCoupon `json:"purged"`
		}{purged})
	}
	_, err := fmt.Fprintln(p.Stdout, text.In(p.Language, purged.Err(p.Instant(purged.PurgedAt))))
	return err
}
