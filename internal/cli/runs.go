package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

const maxRunsListed = 500

type runsCmd struct {
	Date    string          `placeholder:"DATE"`
	Coupon  coupon.CouponID `placeholder:"ID"`
	Status  string          `enum:",RUNNING,SUCCEEDED,HELD,FAILED,ABANDONED" default:"" placeholder:"STATUS"`
	Trigger string          `enum:",CRON,MANUAL,DLQ_RETRY,IMMEDIATE" default:"" placeholder:"TRIGGER"`
	Limit   int             `default:"20" placeholder:"N"`
	Before  coupon.RunID    `placeholder:"RUN"`
	Output  string          `enum:"table,json,csv" default:"table" form:"-"`
}

func (*runsCmd) Declare() verb.Declaration {
	return verb.Declaration{Right: signin.See, API: "GET /v1/runs"}
}

func (c *runsCmd) Validate() error {
	_, err := c.filter(time.UTC)
	return errors.Join(refuse(c.Limit < 1 || c.Limit > maxRunsListed, text.WrongLimit, c.Limit, maxRunsListed,
		"--before"), err)
}

func (c *runsCmd) filter(zone *time.Location) (history.RunFilter, error) {
	f := history.RunFilter{Coupon: c.Coupon, Status: c.Status, Trigger: c.Trigger, Before: c.Before, Limit: c.Limit}
	if c.Date == "" {
		return f, nil
	}
	var err error
	if f.From, f.To, err = calendar.Day(c.Date, zone); err != nil {
		return f, about("--date", text.UsageErrorf(text.WrongDate, "--date", c.Date))
	}
	return f, after1970("--date", c.Date, f.From)
}

// next returns the command that lists the next page.
func (c *runsCmd) next(before coupon.RunID) string {
	next := "settle runs"
	add := func(name string, value any, given bool) {
		if given {
			next += fmt.Sprintf(" --%s=%v", name, value)
		}
	}
	add("date", c.Date, c.Date != "")
	add("status", c.Status, c.Status != "")
	add("trigger", c.Trigger, c.Trigger != "")
	add("coupon", c.Coupon, c.Coupon > 0)
	add("limit", c.Limit, c.Limit != 20)
	add("before", before, true)
	return next
}

type runsPage struct {
	Runs   []history.Run `json:"runs"`
	Before coupon.RunID  `json:"before,omitempty"` // the value of --before for the next page; 0 on the last page
}

func (c *runsCmd) read(ctx context.Context, p *program, s *servers) error {
	filter, _ := c.filter(p.Zone) // no error: Validate has read the flags
	filter.Limit++                // if this additional run exists, there is a next page
	runs, err := history.Reader{DB: s.MySQL}.Runs(ctx, filter)
	if err != nil {
		return err
	}
	page := runsPage{Runs: runs}
	if len(runs) > c.Limit {
		page.Runs = runs[:c.Limit]
		page.Before = page.Runs[c.Limit-1].ID
	}
	switch c.Output {
	case "json":
		return output.JSON(p.Stdout, page)
	case "csv":
		if err := p.view().RunsCSV(page.Runs); err != nil {
			return err
		}
	default:
		p.view().Runs(page.Runs)
	}
	if page.Before > 0 {
		p.warn(text.OlderRuns, c.next(page.Before))
	}
	return nil
}

type showCmd struct {
	Run    coupon.RunID `arg:""`
	Output string       `enum:"table,json" default:"table" form:"-"`
}

func (*showCmd) Declare() verb.Declaration {
	return verb.Declaration{Right: signin.See, API: "GET /v1/runs/{run}"}
}

func (c *showCmd) read(ctx context.Context, p *program, s *servers) error {
	reader := history.Reader{DB: s.MySQL}
	run, err := reader.Run(ctx, c.Run)
	if err != nil {
		return err
	}
	coupons, err := reader.RunCoupons(ctx, c.Run)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return output.JSON(p.Stdout, struct {
			history.Run
			Details []history.RunCoupon `json:"details"` // the coupons that the run changed or could not settle
		}{run, coupons})
	}
	p.view().Run(run, coupons)
	return nil
}
