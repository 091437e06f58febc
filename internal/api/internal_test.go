package api

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/language"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// Every problem has all texts; problems with one code share status and titles.
func TestProblems_AreComplete(t *testing.T) {
	t.Parallel()
	for outcome, p := range problems {
		for _, sentences := range []text{p.korean, p.english} {
			require.NotEmpty(t, sentences.title, outcome)
			require.NotEmpty(t, sentences.detail, outcome)
		}
		require.Equal(t, p.status >= 503 || p.status == http.StatusTooManyRequests, p.retryAfter > 0, outcome)
		if p.code != outcome {
			shared := problems[p.code]
			require.Equal(t, shared.status, p.status, outcome)
			require.Equal(t, shared.korean.title, p.korean.title, outcome)
			require.Equal(t, shared.english.title, p.english.title, outcome)
			require.NotEqual(t, shared.korean.detail, p.korean.detail, outcome)
			require.NotEqual(t, shared.english.detail, p.english.detail, outcome)
		}
	}
	for _, code := range []candidates.Code{
		candidates.NotOpen, candidates.Closed, candidates.Paused, candidates.UnderReview, candidates.AlreadyIssued,
		candidates.Rejected, candidates.SoldOut, candidates.LineFull, candidates.NoWindow, candidates.ClockBehind,
	} {
		require.Contains(t, problems, result(code))
	}
	require.Equal(t, internal, describe("SOMETHING_NEW").code, "an unknown result is no success")
}

// The document has exactly the codes of the table, with their status.
func TestOpenAPI_HasEveryCode(t *testing.T) {
	t.Parallel()
	var known, documented []string
	for _, p := range problems {
		known = append(known, fmt.Sprint(p.status, " ", p.code))
	}
	for _, match := range regexp.MustCompile(`status: (\d+), code: ([A-Z_]+)`).FindAllSubmatch(docs.OpenAPI, -1) {
		documented = append(documented, fmt.Sprintf("%s %s", match[1], match[2]))
	}
	for _, list := range []*[]string{&known, &documented} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	require.Equal(t, known, documented)
}

// An id has one spelling.
func FuzzParseID(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := parseID[coupon.UserID](text)
		number, err := strconv.ParseUint(text, 10, 64)
		require.Equal(t, err == nil && number > 0 && strconv.FormatUint(number, 10) == text, ok, "%q was read as %d", text, id)
		if ok {
			require.EqualValues(t, number, id)
		}
	})
}

// Every Accept-Language gives one of the two languages; a header that is too long counts as none; several headers count as one
// list.
func FuzzNegotiate(f *testing.F) {
	f.Fuzz(func(t *testing.T, accept string) {
		got := negotiate(http.Header{"Accept-Language": {accept}})
		require.Contains(t, languages, got, "%q", accept)
		if accept == "" || len(accept) > maxAcceptLanguage {
			require.Equal(t, language.Korean, got, "%q", accept)
		}
		require.Equal(t, got, negotiate(http.Header{"Accept-Language": strings.Split(accept, ",")}), "%q in several headers", accept)
	})
}

func TestTimesAreRFC3339WithMicroseconds(t *testing.T) {
	t.Parallel()
	const microseconds = "2006-01-02T15:04:05.000000Z07:00"
	zones := []*time.Location{time.UTC, time.FixedZone("KST", 9*3600), time.FixedZone("", -3*3600-1800)}
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(-62000000000000000, 253400000000000000).Draw(t, "µs"))
		at = at.In(rapid.SampledFrom(zones).Draw(t, "zone"))
		require.Equal(t, "at "+at.Format(microseconds), string(appendTime([]byte("at "), at)))
	})
}

// The JSON of a receipt is built in a slice that never grows.
func TestReceipts_FitTheirBound(t *testing.T) {
	t.Parallel()
	s := server{Options: Options{Zone: time.FixedZone("", -(11*60+30)*60), SettlesAt: func(at time.Time) time.Time { return at }}}
	longest := coupon.Coupon{ID: math.MaxUint64, TotalQuantity: math.MaxUint32, Cadence: coupon.Immediate}
	for _, code := range []candidates.Code{candidates.Accepted, candidates.Duplicate} {
		receipt := candidates.Receipt{Code: code, Arrival: coupon.MaxArrival, Position: math.MaxInt64, Now: time.Unix(0, 0)}
		require.Equal(t, maxReceipt, cap(s.ofReceipt(receipt, longest, math.MaxUint64).json))
	}
}

var atNoon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A user may send a burst of two seconds, and then one request per share of a second.
func TestUserRates_RefillWithTime(t *testing.T) {
	t.Parallel()
	rates := newUserRates(5, atNoon)
	may := func(at time.Time) (times int) {
		for rates.wait(7, at) == 0 {
			times++
		}
		return times
	}
	require.Equal(t, 10, may(atNoon))
	require.Equal(t, 0, may(atNoon.Add(199*time.Millisecond)))
	require.Equal(t, 1, may(atNoon.Add(200*time.Millisecond)))
	require.Equal(t, 4, may(atNoon.Add(time.Second)))
	require.Equal(t, 10, may(atNoon.Add(time.Hour)))
	require.Equal(t, 0, may(atNoon.Add(59*time.Minute)), "a clock that falls back admits no request twice")
}

// New users are always admitted, and do not replace a user who sends without pause.
func TestUserRates_ManyUsersDoNotReplaceABusyOne(t *testing.T) {
	t.Parallel()
	rates := newUserRates(5, atNoon)
	admitted := 0
	for user := range coupon.UserID(4 * userShards * shardSets * setUsers) {
		require.Zero(t, rates.wait(user+1000, atNoon))
		if rates.wait(7, atNoon) == 0 {
			admitted++
		}
	}
	require.Equal(t, 10, admitted)
}

// The table has its full size from the start.
func TestUserRates_UseConstantMemory(t *testing.T) {
	rates, user := newUserRates(5, atNoon), coupon.UserID(0)
	require.Zero(t, testing.AllocsPerRun(1, func() { // all calls together: an average would be rounded down
		for range 120_000 {
			user++
			rates.wait(user, atNoon)
		}
	}))
}
