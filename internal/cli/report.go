package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/report"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

type reportCmd struct {
	Date     string            `xor:"period" placeholder:"DATE"`
	Month    string            `xor:"period" placeholder:"MONTH"`
	Campaign uint64            `xor:"coupons" placeholder:"ID"`
	Coupon   []coupon.CouponID `xor:"coupons" placeholder:"ID"`
	Output   string            `enum:"table,csv,json,html" default:"table" form:"-"`
	Out      string            `type:"path" placeholder:"FILE" form:"-"`
}

func (*reportCmd) Declare() verb.Declaration {
	return verb.Declaration{Right: signin.SeeLists, API: "GET /v1/report"}
}

func (c *reportCmd) Validate() error {
	_, err := c.period(time.UTC)
	return errors.Join(refuse(c.Date == "" && c.Month == "" && c.Campaign == 0, text.PeriodMissing), err)
}

// period returns the period that --date or --month names. A day is counted by minutes, a month by hours.
func (c *reportCmd) period(zone *time.Location) (p report.Period, err error) {
	switch {
	case c.Date != "":
		p.Bucket = time.Minute
		if p.From, p.To, err = calendar.Day(c.Date, zone); err != nil {
			return p, about("--date", text.UsageErrorf(text.WrongDate, "--date", c.Date))
		}
		return p, after1970("--date", c.Date, p.From)
	case c.Month != "":
		p.Bucket = time.Hour
		if p.From, p.To, err = calendar.Month(c.Month, zone); err != nil {
			return p, about("--month", text.UsageErrorf(text.WrongMonth, c.Month))
		}
		return p, after1970("--month", c.Month, p.From)
	default:
		return p, nil
	}
}

// maxCampaignDays bounds the whole life of a campaign, which is counted by days.
const maxCampaignDays = 366

// life returns the whole life of a campaign: the days from its first opening to its last closing, and their names.
func (c *reportCmd) life(campaign report.Campaign, zone *time.Location) (p report.Period, name string, err error) {
	last := campaign.Closes.Add(-time.Microsecond)
	p = report.Period{From: calendar.LastCutoff(campaign.Opens, zone), To: calendar.NextCutoff(last, zone),
		Bucket: time.Minute}
	first, end := campaign.Opens.In(zone).Format(time.DateOnly), last.In(zone).Format(time.DateOnly)
	days := int(p.To.Sub(p.From).Hours()+12) / 24 // a day may have 23 or 25 hours
	switch {
	case days > maxCampaignDays:
		return p, "", text.UsageErrorf(text.CampaignTooLong, c.Campaign, first, end, maxCampaignDays)
	case days == 1:
		return p, first, nil
	case days > 31:
		p.Bucket = 24 * time.Hour
	default:
		p.Bucket = time.Hour
	}
	return p, first + " – " + end, nil
}

func (c *reportCmd) read(ctx context.Context, p *program, s *servers) error {
	reporter, coupons := &report.Reporter{DB: s.MySQL, Store: s.store, Users: s.users, Parallel: p.SettleParallel},
		c.Coupon
	period, _ := c.period(p.Zone) // no error: Validate has read the flags
	name := c.Date + c.Month
	if c.Campaign > 0 {
		campaign, err := reporter.Campaign(ctx, c.Campaign)
		if err == nil && name == "" {
			period, name, err = c.life(campaign, p.Zone)
		}
		if err != nil {
			return err
		}
		coupons = campaign.Coupons
	}
	for _, id := range c.Coupon {
		if err := p.notPurged(ctx, s, id); err != nil {
			return err
		}
	}
	bar := output.NewProgress(p.Stderr, p.Sprintf(text.Counting))
	reporter.Progress = func(name string) { bar.Add(name, 1) }
	found, err := reporter.Report(ctx, period, coupons)
	bar.End()
	if err != nil {
		return err
	}
	if len(c.Coupon) == 0 {
		purged, err := reporter.CountPurged(ctx, period, c.Campaign)
		if err != nil {
			return err
		}
		if purged > 0 {
			p.warn(text.ReportWithoutPurged, purged)
		}
	}
	e := report.Edition{Report: found, Period: period, Locale: p.Locale, Name: name, Campaign: c.Campaign,
		GeneratedAt: p.Now()}
	if c.Out == "" {
		err = c.print(p.Stdout, e)
	} else if err = output.WriteFile(c.Out, func(w io.Writer) error { return c.print(w, e) }); err == nil {
		p.warn(text.WrittenTo, c.Out)
	}
	var unread []error
	for _, u := range found.Unread {
		unread = append(unread, u.Err)
	}
	return errors.Join(err, worst(p.printErrors(unread...)...))
}

func (c *reportCmd) print(w io.Writer, e report.Edition) error {
	switch c.Output {
	case "json":
		return e.JSON(w)
	case "csv":
		return e.CSV(w)
	case "html":
		return e.HTML(w)
	default:
		e.Table(w)
		return nil
	}
}
