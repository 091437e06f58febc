package line

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
)

func application(user coupon.UserID, arrival coupon.Arrival, source coupon.Source) coupon.Application {
	return coupon.Application{Member: user.Member(), Arrival: arrival, Source: source}
}

// memoryLine is a queue in memory.
type memoryLine struct {
	all  []coupon.Application
	size int
}

func (l memoryLine) Page(_ context.Context, _ coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	from, _ := strconv.Atoi(after.Score)
	page := l.all[from:min(len(l.all), from+l.size)]
	return page, coupon.Cursor{Score: strconv.Itoa(from + len(page))}, nil
}

// slowQueue is a line without an end, in a Redis whose calls just keep their time limit.
type slowQueue struct{}

func (slowQueue) Page(ctx context.Context, _ coupon.CouponID, after coupon.Cursor,
	_ time.Time) ([]coupon.Application, coupon.Cursor, error) {
	select {
	case <-time.After(3 * time.Second):
		return []coupon.Application{application(1, 1, coupon.SourceQueue)}, after, nil
	case <-ctx.Done():
		return nil, after, ctx.Err()
	}
}

// MySQL would end the session of the transaction that waits for the page.
func TestReader_GivesUpBeforeTheSessionEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := (&Reader{Queue: slowQueue{}, Size: 40}).Next(t.Context(), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(began), connect.Settling.Silent)
	})
}

func TestReader_MergesByArrival(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		arrivals := rapid.SliceOfN(rapid.Int64Range(0, 50), 0, 60)
		line := func(source coupon.Source, size string) (all []coupon.Application) {
			for i, arrival := range arrivals.Draw(t, size) {
				all = append(all, application(coupon.UserID(i+1), coupon.Arrival(arrival), source))
			}
			slices.SortStableFunc(all, func(a, b coupon.Application) int { return int(a.Arrival - b.Arrival) })
			return all
		}
		standing, returned := line(coupon.SourceQueue, "standing"), line(coupon.SourceNotSelected, "returned")
		r := &Reader{Queue: memoryLine{all: standing, size: rapid.IntRange(1, 20).Draw(t, "page")}, inMySQL: returned,
			mysqlEnded: true,
			Size:       rapid.IntRange(1, 30).Draw(t, "size")}
		var got []coupon.Application
		for {
			page, err := r.Next(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
		}
		if len(got) != len(standing)+len(returned) {
			t.Fatalf("%d of %d applications", len(got), len(standing)+len(returned))
		}
		if !slices.IsSortedFunc(got, func(a, b coupon.Application) int { return int(a.Arrival - b.Arrival) }) {
			t.Fatalf("out of order: %v", got)
		}
	})
}
