package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/text"
)

type couponWinnersCmd struct {
	ID     coupon.CouponID `arg:"" name:"coupon"`
	Output string          `enum:"table,csv,json" default:"table"`
}

// maxTabled bounds the rows of a table, which is kept in memory to align its columns. CSV and JSON have all rows.
const maxTabled = 1000

var errEnough = errors.New("the table is full")

func (c *couponWinnersCmd) read(ctx context.Context, p *program, s *servers) error {
	if err := p.notPurged(ctx, s, c.ID); err != nil {
		return err
	}
	reader := history.Reader{DB: s.MySQL}
	if _, err := reader.Coupon(ctx, c.ID); err != nil {
		return err
	}
	each := func(visit func(w history.Winner, asOf time.Time) error) error {
		return reader.EachWinner(ctx, c.ID, visit)
	}
	switch c.Output {
	case "csv":
		return p.view().WinnersCSV(each)
	case "json":
		return p.winnersJSON(c.ID, each)
	default:
		return p.winnersTable(each)
	}
}

func (p *program) winnersTable(each func(func(w history.Winner, asOf time.Time) error) error) error {
	var shown []history.Winner
	var at time.Time
	err := each(func(w history.Winner, asOf time.Time) error {
		if at = asOf; len(shown) == maxTabled {
			return errEnough
		}
		shown = append(shown, w)
		return nil
	})
	cut := errors.Is(err, errEnough)
	if err != nil && !cut {
		return err
	}
	if len(shown) == 0 {
		p.view().Println(text.NoWinners)
		return nil
	}
	p.view().Winners(shown)
	p.view().Println(text.WinnersAsOf, at)
	if cut {
		p.warn(text.WinnersCut, maxTabled)
	}
	return nil
}

// winnersJSON writes one winner a line, so that the list need not be in memory.
func (p *program) winnersJSON(id coupon.CouponID, each func(func(w history.Winner, asOf time.Time) error) error) error {
	fmt.Fprintf(p.Stdout, `{"coupon": %d, "winners": [`, id)
	separator, asOf := "\n", []byte("null")
	err := each(func(w history.Winner, at time.Time) error {
		line, err := json.Marshal(w)
		if err == nil {
			asOf, err = json.Marshal(at)
		}
		fmt.Fprintf(p.Stdout, "%s%s", separator, line)
		separator = ",\n"
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "\n], \"asOf\": %s}\n", asOf)
	return err
}
