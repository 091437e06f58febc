package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/report"
	"github.com/jajeong/jajeong/internal/text"
)

type reportCmd struct {
	Date   string            `xor:"period" placeholder:"DATE"`
	Month  string            `xor:"period" placeholder:"MONTH"`
	Coupon []coupon.CouponID `placeholder:"ID"`
	Output string            `enum:"table,csv,json,html" default:"table"`
	Out    string            `type:"path" placeholder:"FILE"`
}

// Validate reports what is impossible about the flags.
func (c *reportCmd) Validate() error {
	_, err := c.period(time.UTC)
	return errors.Join(refuse(c.Date == "" && c.Month == "", text.PeriodMissing), err)
}

// period is the period of the report: a day by minutes, a month by hours.
func (c *reportCmd) period(zone *time.Location) (p report.Period, err error) {
	switch {
	case c.Date != "":
		p.Bucket = time.Minute
		if p.From, p.To, err = calendar.Day(c.Date, zone); err != nil {
			return p, text.UsageErrorf(text.WrongDate, "--date", c.Date)
		}
	case c.Month != "":
		p.Bucket = time.Hour
		if p.From, p.To, err = calendar.Month(c.Month, zone); err != nil {
			return p, text.UsageErrorf(text.WrongMonth, c.Month)
		}
	default:
		return p, nil
	}
	return p, after1970(p.From)
}

func (c *reportCmd) read(ctx context.Context, p *program, s *servers) error {
	period, _ := c.period(p.zone) // Validate has read it
	found, err := (&report.Reporter{DB: s.MySQL, Store: s.store, Users: s.users}).Report(ctx, period, c.Coupon)
	if err != nil {
		return err
	}
	e := report.Edition{Report: found, Period: period, Locale: p.locale(), Name: c.Date + c.Month, GeneratedAt: p.now()}
	if c.Out == "" {
		return errors.Join(c.print(p.stdout, e), p.reportUnread(found))
	}
	if err := output.WriteFile(c.Out, func(w io.Writer) error { return c.print(w, e) }); err != nil {
		return text.UsageErrorf(text.OutNotWritten, err)
	}
	p.warn(text.WrittenTo, c.Out)
	return p.reportUnread(found)
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

// reportUnread prints which coupons are missing in the report. It returns the exit code.
func (p *program) reportUnread(r *report.Report) error {
	var classes []coupon.Class
	for _, u := range r.Unread {
		fmt.Fprintf(p.stderr, "settle: %s\n", u.Error)
		classes = append(classes, classOf(u.Err))
	}
	if len(classes) > 0 {
		p.warn(text.AdviseRunAgain)
	}
	return worst(classes)
}
