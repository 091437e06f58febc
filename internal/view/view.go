// Package view prints runs, coupons, DLQ entries, changes and verdicts as tables and as CSV.
package view

import (
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

type View struct {
	output.Locale
	W io.Writer
}

func (v View) Println(m text.Message, args ...any) { v.Fprintln(v.W, m, args...) }

func (v View) table(columns ...text.Message) table.Writer {
	t := output.Table(v.W)
	t.AppendHeader(v.Cells(columns...))
	return t
}

func (v View) instantOf(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return v.Instant(t)
}

func (v View) arrival(a coupon.Arrival) string { return v.Instant(a.Time()) }

func span(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d–%d", least, most)
}
