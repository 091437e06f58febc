package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/sleep"
	"github.com/jajeong/jajeong/internal/text"
)

type eventsCmd struct {
	Status eventsStatusCmd `cmd:""`
	Replay eventsReplayCmd `cmd:""`
	Verify eventsVerifyCmd `cmd:""`
}

type eventsStatusCmd struct {
	sinkSettings `embed:""`
	Output       string `enum:"table,json" default:"table"`
}

// lagsWithin bounds the question to the sink how far its consumers are.
const lagsWithin = 5 * time.Second

func (c *eventsStatusCmd) read(ctx context.Context, p *program, s *servers) error {
	all, err := events.ReadStatus(ctx, s.MySQL)
	if err != nil {
		return err
	}
	var sinkErr error
	for i := range all {
		if all[i].Sink != c.EventSink {
			continue
		}
		if all[i].Consumers, sinkErr = c.lags(ctx, p); sinkErr != nil {
			all[i].SinkError = sinkErr.Error()
		}
	}
	if c.Output == "json" {
		err = output.JSON(p.Stdout, all)
	} else {
		p.view().EventStatus(all)
	}
	return errors.Join(err, sinkErr)
}

func (c *eventsStatusCmd) lags(ctx context.Context, p *program) ([]events.Lag, error) {
	sink, err := c.open(p, c.EventSink, 0)
	if err != nil {
		return nil, err
	}
	defer sink.Close()
	ctx, cancel := context.WithTimeout(ctx, lagsWithin)
	defer cancel()
	return sink.Lags(ctx)
}

type eventsReplayCmd struct {
	sinkSettings `embed:""`

	Coupon coupon.CouponID `placeholder:"ID"`
	Run    coupon.RunID    `placeholder:"ID"`
	From   string          `placeholder:"TIME"`
	To     string          `placeholder:"TIME"`
	Sink   string          `enum:"redis,kafka," default:"" placeholder:"SINK"`
	DryRun bool
	Yes    bool
	Output string `enum:"table,json" default:"table"`
}

// sink is where the events go.
func (c *eventsReplayCmd) sink() string {
	if c.Sink != "" {
		return c.Sink
	}
	return c.EventSink
}

func (c *eventsReplayCmd) selection(zone *time.Location) (s events.Selection, err error) {
	s = events.Selection{Coupon: c.Coupon, Run: c.Run}
	s.From, s.To, err = period(c.From, c.To, zone)
	return s, err
}

// period reads the flags --from and --to. A flag that is not given has the zero time.
func period(from, to string, zone *time.Location) (since, before time.Time, err error) {
	var wrongFrom, wrongTo error
	if from != "" {
		since, wrongFrom = instant("--from", from, zone)
	}
	if to != "" {
		before, wrongTo = instant("--to", to, zone)
	}
	return since, before, errors.Join(wrongFrom, wrongTo)
}

func (c *eventsReplayCmd) Validate() error {
	s, err := c.selection(time.UTC)
	return errors.Join(err, c.sinkSettings.Validate(), c.needs(c.Sink),
		refuse(s == events.Selection{} && err == nil, text.NothingToReplay),
		refuse(err == nil && !s.To.IsZero() && !s.From.Before(s.To), text.EventsBackwards, c.From, c.To),
		refuse(c.sink() == connect.NoSink && !c.DryRun, text.NoSinkToReplay))
}

// askAbove is how many events a replay publishes without a question.
const askAbove = 10_000

// replayed is the JSON of settle events replay.
type replayed struct {
	Sink    string         `json:"sink,omitempty"`
	DryRun  bool           `json:"dryRun"`
	Coupons int            `json:"coupons"`
	Events  int            `json:"events"`
	ByType  map[string]int `json:"byType"`
}

func (c *eventsReplayCmd) read(ctx context.Context, p *program, s *servers) error {
	selection, err := c.selection(p.Zone)
	if err = cmp.Or(err, c.known(ctx, p, s)); err != nil {
		return err
	}
	replay := &events.Replay{Selection: selection, Rows: s.MySQL, Wait: sleep.For, Progress: func(int) {}}
	if !c.Yes || c.DryRun {
		counted, err := replay.Run(ctx)
		if err != nil || c.DryRun {
			return c.print(p, counted, err)
		}
		may, err := p.confirm(ctx, counted.Events <= askAbove,
			text.UsageErrorf(text.ReplayNeedsYes, counted.Events), p.Sprintf(text.AskReplay, counted.Events, c.sink()))
		if err != nil || !may {
			return err
		}
	}
	gap, err := events.ReadGap(ctx, s.MySQL, c.sink())
	if err != nil {
		return err
	}
	sink, err := c.open(p, c.sink(), 0) // its retention may differ from the relay's, which alone removes events
	if err != nil {
		return err
	}
	defer sink.Close()
	bar := output.NewProgress(p.Stderr, p.Sprintf(text.Replaying))
	published := 0
	replay.Sink = sink
	replay.Progress = func(n int) { bar.Add("", n-published); published = n }
	replay.Full = func(err error) { p.warn(text.SinkIsFull, err) }
	done, err := replay.Run(ctx)
	bar.End()
	if err != nil && ctx.Err() != nil {
		err = settle.Stopped(ctx)
	}
	if err = c.print(p, done, err); err != nil || gap == nil {
		return err
	}
	return c.closeGap(ctx, p, s, gap, selection.Covers(gap), done.Server)
}

// closeGap forgets what the sink lacked, if the replay has published all of it. It says what the sink may still lack.
func (c *eventsReplayCmd) closeGap(ctx context.Context, p *program, s *servers, gap *events.Gap, covered bool,
	server string) (err error) {
	if covered {
		gap, err = events.CloseGap(ctx, mysqltx.New(s.MySQL), c.sink(), gap, server)
	}
	switch {
	case err != nil:
		return err
	case gap == nil:
		p.warn(text.SinkLacksNothing, c.sink())
	default:
		p.errors().MayLack(c.sink(), gap)
	}
	return nil
}

// known returns an error if the selection names a coupon or a run that is not there.
func (c *eventsReplayCmd) known(ctx context.Context, p *program, s *servers) error {
	reader := history.Reader{DB: s.MySQL}
	if c.Coupon != 0 {
		if err := p.notPurged(ctx, s, c.Coupon); err != nil {
			return err
		}
		if _, err := reader.Coupon(ctx, c.Coupon); err != nil {
			return err
		}
	}
	if c.Run != 0 {
		if _, err := reader.Run(ctx, c.Run); err != nil {
			return err
		}
	}
	return nil
}

// print prints the result, and returns the error.
func (c *eventsReplayCmd) print(p *program, done events.Replayed, err error) error {
	result := replayed{DryRun: c.DryRun, Coupons: done.Coupons, Events: done.Events, ByType: done.ByType}
	if !c.DryRun {
		result.Sink = c.sink()
	}
	if c.Output == "json" {
		return errors.Join(err, output.JSON(p.Stdout, result))
	}
	if err == nil || done.Events > 0 {
		p.view().Replayed(done, c.DryRun)
	}
	if err != nil && !c.DryRun {
		err = fmt.Errorf("%w; %s", err, p.Sprintf(text.ReplayMayBeRepeated))
	}
	return err
}

type eventsVerifyCmd struct {
	sinkSettings `embed:""`
	From         string `required:"" placeholder:"TIME"`
	To           string `placeholder:"TIME"`
	Output       string `enum:"table,json" default:"table"`
}

func (c *eventsVerifyCmd) Validate() error {
	from, to, err := period(c.From, c.To, time.UTC)
	return errors.Join(err, c.sinkSettings.Validate(),
		refuse(err == nil && !to.IsZero() && !from.Before(to), text.EventsBackwards, c.From, c.To),
		refuse(c.EventSink == connect.NoSink, text.NoSinkToVerify))
}

func (c *eventsVerifyCmd) read(ctx context.Context, p *program, s *servers) error {
	from, to, err := period(c.From, c.To, p.Zone)
	if err != nil {
		return err
	}
	sink, err := c.open(p, c.EventSink, 0)
	if err != nil {
		return err
	}
	defer sink.Close()
	bar := output.NewProgress(p.Stderr, p.Sprintf(text.ComparingEvents))
	found, err := (&events.Verification{From: from, To: to, Sink: sink, Rows: s.MySQL,
		Progress: func(n int) { bar.Add("", n) }}).Run(ctx)
	bar.End()
	switch {
	case err != nil && ctx.Err() != nil:
		return settle.Stopped(ctx)
	case err != nil:
		return err
	case c.Output == "json":
		err = output.JSON(p.Stdout, found)
	default:
		p.view().Verified(c.EventSink, &found)
	}
	if err == nil && len(found.Missing) > 0 {
		err = worst(coupon.Invariant)
	}
	return err
}
