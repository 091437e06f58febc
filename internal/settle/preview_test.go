package settle_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
)

// restartedLine calls a function when the line is read from its beginning for the second time.
type restartedLine struct {
	settle.Line
	starts  int
	restart func()
}

func (l *restartedLine) Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	if after == (coupon.Cursor{}) {
		if l.starts++; l.starts == 2 {
			l.restart()
		}
	}
	return l.Line.Page(ctx, couponID, after, cutoff)
}

func TestPreview_ReleasesLockBeforeRestOfLine(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, between(1, 5)...)
	d.SetStatus("BLOCKED", 2)
	walked := &restartedLine{restart: func() {
		var id coupon.CouponID
		assert.NoError(t, d.DB.QueryRow("SELECT id FROM coupon WHERE id = ? FOR UPDATE NOWAIT", couponID).Scan(&id))
	}}
	s := d.Settler(func(s *settle.Settler) { walked.Line, s.Line = s.Line, walked })
	report, err := s.Preview(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.Equal(t, 2, walked.starts)
	require.Equal(t, settle.Counts{Read: 5, Issued: 2, UnderReview: 1, NotSelected: 2}, report.Total.Counts)
	require.Equal(t, coupon.UserID(3), report.Coupons[0].Preview.Last.User)
	require.Equal(t, report.Total.Counts, d.SettleNow().Total.Counts)
	d.Verify()
}
