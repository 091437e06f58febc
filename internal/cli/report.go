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
	"github.com/jajeong/jajeong/internal/text"
)

type reportCmd struct {
	Date   string            `xor:"period" placeholder:"DATE"`
	Month  string            `xor:"period" placeholder:"MONTH"`
	Coupon []coupon.CouponID `placeholder:"ID"`
	Output string            `enum:"table,csv,json,html" default:"table"`
	Out    string            `type:"path" placeholder:"FILE"`
}

func (c *reportCmd) Validate() error {
	_, err := c.period(time.UTC)
	return errors.Join(refuse(c.Date == "" && c.Month == "", text.PeriodMissing), err)
}

// period returns the period of the report. A day is counted by minutes, a month by hours.
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
	period, _ := c.period(p.Zone) // no error: Validate has read the flags
	found, err := (&report.Reporter{DB: s.MySQL, Store: s.store, Users: s.users}).Report(ctx, period, c.Coupon)
	if err != nil {
		return err
	}
	e := report.Edition{Report: found, Period: period, Locale: p.Locale, Name: c.Date + c.Month, GeneratedAt: p.Now()}
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
