package api

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/candidates"
)

// Every problem has all texts; problems with one code share status and titles.
func TestProblems_AreComplete(t *testing.T) {
	t.Parallel()
	for outcome, p := range problems {
		for _, words := range []text{p.korean, p.english} {
			require.NotEmpty(t, words.title, outcome)
			require.NotEmpty(t, words.detail, outcome)
		}
		public, code := describe(outcome)
		require.Equal(t, public.status >= 503 || public.status == http.StatusTooManyRequests, public.retryAfter > 0, outcome)
		if code != outcome {
			shared := problems[code]
			require.Equal(t, shared.status, p.status, outcome)
			require.Equal(t, shared.korean.title, p.korean.title, outcome)
			require.Equal(t, shared.english.title, p.english.title, outcome)
			require.NotEqual(t, shared.korean.detail, p.korean.detail, outcome)
			require.NotEqual(t, shared.english.detail, p.english.detail, outcome)
		}
	}
	for _, code := range []candidates.Code{
		candidates.NotOpen, candidates.Closed, candidates.Paused, candidates.UnderReview, candidates.AlreadyIssued,
		candidates.Rejected, candidates.SoldOut, candidates.NoWindow, candidates.ClockBehind,
	} {
		require.Contains(t, problems, ofRedis(code))
		require.Equal(t, string(code), string(ofRedis(code)))
	}
	require.Equal(t, internal, ofRedis("SOMETHING_NEW"))
	require.Equal(t, internal, ofStanding("SOMETHING_NEW"))
	_, code := describe("SOMETHING_NEW")
	require.Equal(t, internal, code, "an unknown result is no success")
}

// The document has exactly the codes of the table, with their status.
func TestOpenAPI_HasEveryCode(t *testing.T) {
	t.Parallel()
	var told, documented []string
	for outcome := range problems {
		p, code := describe(outcome)
		told = append(told, fmt.Sprint(p.status, " ", code))
	}
	for _, match := range regexp.MustCompile(`status: (\d+), code: ([A-Z_]+)`).FindAllSubmatch(docs.OpenAPI, -1) {
		documented = append(documented, fmt.Sprintf("%s %s", match[1], match[2]))
	}
	for _, list := range []*[]string{&told, &documented} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	require.Equal(t, told, documented)
}
