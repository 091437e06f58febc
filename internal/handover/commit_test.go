package handover

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
)

// accepting accepts every application.
type accepting struct{}

func (accepting) Apply(context.Context, coupon.CouponID, coupon.UserID) (candidates.Receipt, error) {
	return candidates.Receipt{Code: candidates.Accepted, Arrival: 100}, nil
}

// Whoever finds no room for the row is not told.
func TestCommitted_TooManyRowsWait(t *testing.T) {
	t.Parallel()
	p := newPod(t, &fake{state: newState("a:1")})
	c := Commit(accepting{}, p.Memory, nil, prometheus.NewRegistry(), time.Now)
	c.writing = true // a statement that does not end
	c.next = &group{rows: make([]promise.Row, maxUncommitted), done: make(chan struct{})}
	receipt, err := c.Apply(t.Context(), id, 7)
	require.ErrorIs(t, err, errTooMany)
	require.Zero(t, receipt)
	require.Len(t, c.next.rows, maxUncommitted)
}
