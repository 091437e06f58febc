package candidates

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// limited opens a coupon whose queue takes at most limit applications.
func limited(t *testing.T, limit int) (*fixture, coupon.Window) {
	t.Helper()
	c := newCoupon(t)
	w := c.open(t)
	w.Version, w.LineLimit = 2, limit
	c.publish(t, w)
	return c, w
}

func codesOf(receipts []Receipt) (codes []Code) {
	for _, r := range receipts {
		codes = append(codes, r.Code)
	}
	return codes
}

// The limit counts those who wait and those accepted earlier in the same call. Who has an application is told so.
func TestFullLineRecordsNothing(t *testing.T) {
	t.Parallel()
	c, w := limited(t, 3)
	c.addByHand(t, c.dlq, place{"2000000", "70"})
	c.markIssued(t, "71")
	c.markRejected(t, "72")
	first := c.accept(t, 1)[0].Arrival
	require.Equal(t, []Code{Accepted, Duplicate, Accepted, LineFull, LineFull, Duplicate, UnderReview, AlreadyIssued,
		Rejected, LineFull}, codesOf(c.applyAll(t, 2, 1, 3, 4, 5, 3, 70, 71, 72, 4)))
	before := c.content(t)
	require.Equal(t, Receipt{Code: LineFull, Arrival: first, Now: noon, OpensAt: w.Opens}, c.apply(t, 4))
	require.Equal(t, before, c.content(t))
	require.Equal(t, "3", c.get(t, "accepted"))

	c.set(t, "sold", 1)
	require.Equal(t, SoldOut, c.apply(t, 4).Code, "SOLD_OUT goes first")
}

func TestFullLineFilledByOneCall(t *testing.T) {
	t.Parallel()
	c, _ := limited(t, 1)
	receipts := c.applyAll(t, 1, 2)
	require.Equal(t, []Code{Accepted, LineFull}, codesOf(receipts))
	require.Equal(t, receipts[0].Arrival, receipts[1].Arrival, "the lowest arrival in the queue")
}

func TestFreePlacesReopenTheLine(t *testing.T) {
	t.Parallel()
	c, w := limited(t, 2)
	at := c.accept(t, 1, 2)
	require.Equal(t, LineFull, c.apply(t, 3).Code)
	c.remove(t, w.Closes, coupon.MarkIssued, coupon.Application{Member: "1", Arrival: at[0].Arrival})
	require.Equal(t, []Code{AlreadyIssued, Accepted, LineFull}, codesOf(c.applyAll(t, 1, 3, 4)))

	// A limit below the length of the queue puts nobody out.
	w.Version, w.LineLimit = 3, 1
	c.publish(t, w)
	require.Equal(t, []Code{Duplicate, Duplicate, LineFull}, codesOf(c.applyAll(t, 2, 3, 4)))
	w.Version, w.LineLimit = 4, 0
	c.publish(t, w)
	c.accept(t, 4)
	require.False(t, c.rdb.HExists(t.Context(), c.state, "line_limit").Val())
}

// As opens and closes do, the limit reaches Redis also with a version that Redis has already.
func TestPublishWritesTheLineLimit(t *testing.T) {
	t.Parallel()
	c, w := limited(t, 3)
	require.Equal(t, "3", c.get(t, "line_limit"))
	w.LineLimit = 5
	c.publish(t, w)
	require.Equal(t, "5", c.get(t, "line_limit"))
	w.Version, w.LineLimit = 1, 9
	_, published, err := c.Publish(t.Context(), w, 0)
	require.NoError(t, err)
	require.False(t, published)
	require.Equal(t, "5", c.get(t, "line_limit"), "the version is older")

	c.freeze(noon.Add(time.Minute))
	before := c.content(t)
	w.Version, w.LineLimit = 2, 5
	c.publish(t, w)
	require.Equal(t, before, c.content(t), "an unchanged limit writes nothing")

	_, _, err = c.StopApplying(t.Context(), w, 0, true)
	require.NoError(t, err)
	require.Equal(t, "5", c.get(t, "line_limit"))
	_, _, err = c.StopApplying(t.Context(), w, 0, false)
	require.NoError(t, err)
	require.Equal(t, "5", c.get(t, "line_limit"))
}

func TestUnreadableLineLimitIsNone(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"", "0", "-1", "many"} {
		c, _ := limited(t, 1)
		c.set(t, "line_limit", limit)
		c.accept(t, 1, 2)
	}
}

// A promise goes before the limit, which counts the queue alone.
func TestEnterGoesBeyondTheLineLimit(t *testing.T) {
	t.Parallel()
	c, _ := limited(t, 1)
	first := c.accept(t, 1)[0].Arrival
	require.EqualValues(t, 2, c.enter(t, entryOf(2, first+7), entryOf(3, first+8)).Entered)
	require.Equal(t, map[string]float64{"1": float64(first), "2": float64(first + 7), "3": float64(first + 8)},
		c.scores(t, c.queue))
	require.Equal(t, LineFull, c.apply(t, 4).Code)
}
