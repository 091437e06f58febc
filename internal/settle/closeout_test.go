package settle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// leavingLine notes the calls that remove applications. Each fails, if fails is set.
type leavingLine struct {
	memoryLine
	settlement *settlement
	fails      error
	removed    *[]coupon.Application
}

func (l leavingLine) Review(context.Context, coupon.CouponID, coupon.RunID, time.Time,
	[]coupon.Failure) (int64, error) {
	return 0, nil
}

const countRecordedSQL = "SELECT COUNT(*) FROM application_outcome WHERE outcome = 'NOT_SELECTED' AND applied_at <= ?"

func (l leavingLine) Remove(ctx context.Context, _ coupon.CouponID, _ time.Time, _ coupon.Mark,
	leaving []coupon.Application) (int64, error) {
	if l.fails != nil || len(leaving) == 0 {
		return 0, l.fails
	}
	*l.removed = append(*l.removed, leaving...)
	var recorded int
	err := l.settlement.DB.Pool().QueryRowContext(ctx, countRecordedSQL,
		leaving[len(leaving)-1].Arrival.Time()).Scan(&recorded)
	if err == nil && recorded < len(*l.removed) {
		err = errors.New("an application leaves before its outcome is committed")
	}
	return int64(len(leaving)), err
}

// newCloseOut has a coupon without seats, and a line of so many full pages and one application.
func newCloseOut(t *testing.T, pages int) (s *settlement, line []coupon.Application, removed *[]coupon.Application) {
	t.Helper()
	line = make([]coupon.Application, pages*pageApplications+1)
	for i := range line {
		line[i] = application(coupon.UserID(1+(i*7919)%len(line)), coupon.Arrival(1000+i), coupon.SourceQueue)
	}
	s = newSettlement(t, 0)
	_, err := s.DB.Pool().Exec("INSERT INTO `user` (id) SELECT j.user_id FROM "+mysqltx.ApplicationsTable,
		mysqltx.ApplicationsJSON(line))
	require.NoError(t, err)
	return s, line, new([]coupon.Application)
}

// If a page cannot leave Redis, the page after it may be recorded, but no further page begins. A repetition removes the
// pages in order, each after its commit.
func TestCloseOut_EndsIfPageCannotLeave(t *testing.T) {
	t.Parallel()
	s, line, removed := newCloseOut(t, 2)
	s.Line = leavingLine{memoryLine{all: line, size: 5000}, s, errors.New("redis is full"), removed}
	sum, err := s.closeOut(t.Context(), issued{coupon: s.coupon})
	require.ErrorContains(t, err, "redis is full")
	require.Equal(t, 2*pageApplications, sum.NotSelected)
	var recorded int
	require.NoError(t, s.DB.Pool().QueryRow("SELECT COUNT(*) FROM application_outcome").Scan(&recorded))
	require.Equal(t, 2*pageApplications, recorded, "the counts of a failed close-out")

	s.Line = leavingLine{memoryLine{all: line, size: 5000}, s, nil, removed}
	sum, err = s.closeOut(t.Context(), issued{coupon: s.coupon})
	require.NoError(t, err)
	require.Equal(t, Counts{NotSelected: 1}, sum.Counts, "the others are found recorded")
	require.Equal(t, line, *removed)
	require.NoError(t,
		s.DB.Pool().QueryRow("SELECT COUNT(*) FROM application_outcome WHERE coupon_id = 1 AND run_id = ? AND "+
			"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at) BETWEEN 1000 AND 1000 + ?", s.run.id,
			len(line)-1).Scan(&recorded))
	require.Equal(t, len(line), recorded)
}
