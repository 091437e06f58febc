package console_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// A page is in the language that the reader has chosen, or else in that of the browser.
func TestPages_FollowTheReader(t *testing.T) {
	t.Parallel()
	site := "http://" + behindProxy(jajeongtest.New(t)).Console
	for name, test := range map[string]struct{ browser, chosen, title string }{
		"nothing":                       {"", "", "오늘 밤"},
		"Korean browser":                {"ko-KR,ko;q=0.9,en;q=0.8", "", "오늘 밤"},
		"English browser":               {"en-US,en;q=0.9", "", "Tonight"},
		"browser of another language":   {"fr", "", "오늘 밤"},
		"chosen beside another browser": {"en", "ko", "오늘 밤"},
		"English chosen":                {"ko", "en", "Tonight"},
		"a cookie of another program":   {"en", "de", "Tonight"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site+"/", nil)
			require.NoError(t, err)
			r.Header.Set("X-Forwarded-User", "kim")
			r.Header.Set("X-Forwarded-Groups", "team-ops")
			r.Header.Set("Accept-Language", test.browser)
			if test.chosen != "" {
				r.AddCookie(&http.Cookie{Name: "__Host-jajeong-language", Value: test.chosen})
			}
			response, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer response.Body.Close()
			page, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Contains(t, string(page), "<h1>"+test.title)
		})
	}
}
