package api

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/standing"
)

// unjustified are claims about the state of an application, which only a look at Redis can justify, and about every
// seat of a coupon that is sold out: seats may be added, and are given by the next run.
const unjustified = `유지|안전|is kept|keep your|is safe|모두 발급|Every coupon|no longer`

// Every problem has all texts; problems with one code share status and titles.
func TestProblems_AreComplete(t *testing.T) {
	t.Parallel()
	for outcome, p := range problems {
		for _, sentences := range []words{p.Korean, p.English} {
			require.NotEmpty(t, sentences.Title, outcome)
			require.NotEmpty(t, sentences.Detail, outcome)
			require.NotRegexp(t, unjustified, sentences.Detail, outcome)
			if p.Code == unavailable && outcome != overloaded { // Redis may have lost what it had
				require.NotRegexp(t, `영향이 없|not affected`, sentences.Detail, outcome)
			}
		}
		require.Equal(t, p.Status >= 503 || p.Status == http.StatusTooManyRequests, p.RetryAfter > 0, outcome)
		if p.Code != outcome {
			shared := problems[p.Code]
			require.Equal(t, shared.Status, p.Status, outcome)
			require.Equal(t, shared.Korean.Title, p.Korean.Title, outcome)
			require.Equal(t, shared.English.Title, p.English.Title, outcome)
			require.NotEqual(t, shared.Korean.Detail, p.Korean.Detail, outcome)
			require.NotEqual(t, shared.English.Detail, p.English.Detail, outcome)
		}
	}
	for _, code := range []candidates.Code{
		candidates.NotOpen, candidates.Closed, candidates.Paused, candidates.UnderReview, candidates.AlreadyIssued,
		candidates.Rejected, candidates.SoldOut, candidates.LineFull, candidates.NoWindow, candidates.ClockBehind,
	} {
		require.Contains(t, problems, result(code))
	}
	require.Equal(t, internal, problems.Of("SOMETHING_NEW").Code, "an unknown result is no success")
}

// The document has exactly the codes of the table, with their status.
func TestOpenAPI_HasEveryCode(t *testing.T) {
	t.Parallel()
	var known, documented []string
	for _, p := range problems {
		known = append(known, fmt.Sprint(p.Status, " ", p.Code))
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

// The JSON of an ACCEPTED or DUPLICATE is built in a slice that never grows.
func TestReplies_FitTheirBound(t *testing.T) {
	t.Parallel()
	s := server{Options: Options{Receipts: ReceiptKeys(t, strings.Repeat("k", 32)),
		Terms: standing.Terms{Zone: func() *time.Location { return time.FixedZone("", -(11*60+30)*60) }}}}
	longest := coupon.Coupon{ID: math.MaxUint64, TotalQuantity: math.MaxUint32, Cadence: coupon.Immediate}
	most := 0
	for _, code := range []candidates.Code{candidates.Accepted, candidates.Duplicate} {
		reply := candidates.Receipt{Code: code, Arrival: coupon.MaxArrival, Position: math.MaxInt64,
			Now: coupon.MaxArrival.Time()}
		for _, language := range []string{"ko", "en"} {
			json := s.ofReply(reply, longest, math.MaxUint64, http.Header{"Accept-Language": {language}}).json
			require.Equal(t, maxReply, cap(json))
			most = max(most, len(json))
		}
	}
	require.Equal(t, maxReply, most)
}
