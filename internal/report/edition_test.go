package report_test

import (
	"bytes"
	"encoding/csv"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/report"
	"github.com/jajeong/jajeong/internal/text"
)

func counts() report.Counts {
	return report.Counts{ValueWon: new(big.Int),
		UserCoupons: report.UserCoupons{UsedWon: new(big.Int), OpenWon: new(big.Int), ExpiredWon: new(big.Int),
			RevokedWon: new(big.Int)}}
}

// edition is an empty report of a month.
func edition(l text.Language) report.Edition {
	from := time.Date(2025, 11, 1, 0, 0, 0, 0, seoul)
	return report.Edition{
		Report: &report.Report{Total: counts()}, Name: "2025-11", GeneratedAt: from,
		Period: report.Period{From: from, To: from.AddDate(0, 1, 0), Bucket: time.Hour},
		Locale: output.Locale{Language: l, Zone: seoul},
	}
}

func TestCSVKeepsHostileNamesText(t *testing.T) {
	t.Parallel()
	e := edition("en")
	names := []string{
		`=cmd|' /C calc'!A0`, "+82 10", "-1+2", "@SUM(1,1)", "\t=1", "\r=1", "\n=1", "＝1+1", "＋1", "－1", "＠a", " =1",
		"\u00a0@a",
		`a",=1,"b`, "a\r\n=1,2", "심야 쿠폰, \"최대\" 50%", "'=1", "1e5", "",
	}
	for i, name := range names {
		e.Coupons = append(e.Coupons, report.Coupon{Coupon: coupon.CouponID(i), Name: name, Counts: counts()})
	}
	e.Coupons[0].Gap = -1
	var written bytes.Buffer
	require.NoError(t, e.CSV(&written))
	stdout := written.String()
	require.True(t, strings.HasPrefix(stdout, "\xEF\xBB\xBFperiod,coupon_id,name,"))
	require.NotContains(t, strings.ReplaceAll(stdout, "\r\n", ""), "\n", "every line ends as Excel expects")
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(stdout, "\xEF\xBB\xBF"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+len(names))
	for i, row := range rows[1:] {
		for column, cell := range row {
			if rows[0][column] == "gap" {
				require.Equal(t, map[bool]string{true: "-1", false: "0"}[i == 0], cell, "a number stays one")
				continue
			}
			require.NotRegexp(t, "^[ \u00a0]*[=+\\-@\t\r\n＝＋－＠]", cell, "%s of %q", rows[0][column], names[i])
		}
		if plain := strings.NewReplacer("\t", " ", "\r", " ", "\n", " ").Replace(names[i]); plain != "" {
			require.Contains(t, []string{plain, "'" + plain}, row[2])
		}
	}
	require.Equal(t, "심야 쿠폰, \"최대\" 50%", rows[16][2], "what does no harm stays as it is")
}

func TestHTMLLoadsAndRunsNothing(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{"ko", "en"} {
		e := edition(text.Language(lang))
		e.Coupons =
			[]report.Coupon{{Coupon: 1, Name: `"><script>alert(1)</script><img src=http://evil/x onerror=alert(1)>`},
				{Coupon: 2}}
		for i := range e.Coupons {
			e.Coupons[i].Counts = counts()
			e.Coupons[i].Audit = []report.AuditGroup{{Count: 1}}
		}
		e.Total.Outcomes, e.Total.ValueWon = report.Outcomes{Applications: 5, Issued: 3, NotSelected: 1,
			UnderReview: 1}, big.NewInt(3_005_000)
		e.Timeline = make([]int64, 30*24)
		e.Timeline[10], e.Timeline[719] = 4, 1
		var written bytes.Buffer
		require.NoError(t, e.HTML(&written))
		stdout := written.String()
		doc, err := html.Parse(strings.NewReader(stdout))
		require.NoError(t, err)
		elements := map[string]int{}
		var shown bytes.Buffer
		var walk func(n *html.Node)
		walk = func(n *html.Node) {
			if n.Type == html.ElementNode {
				elements[n.Data]++
				for _, a := range n.Attr {
					require.NotContains(t, []string{"src", "href", "srcset", "action", "data"}, a.Key)
					require.False(t, strings.HasPrefix(a.Key, "on"), a.Key)
					if n.Data == "html" {
						require.Equal(t, lang, a.Val)
					}
				}
			}
			if n.Type == html.TextNode {
				shown.WriteString(n.Data + "\n")
			}
			for child := range n.ChildNodes() {
				walk(child)
			}
		}
		walk(doc)
		for _, unwanted := range []string{"script", "img", "link", "iframe", "object", "form", "b"} {
			require.Zero(t, elements[unwanted], unwanted)
		}
		require.Equal(t, 2, elements["svg"])
		require.Equal(t, 3, elements["table"])
		require.Equal(t, 2*(1+2+1)+1+2, elements["tr"], "coupons with their sums, twice, and two actions")
		require.GreaterOrEqual(t, elements["rect"], 3, "an outcome each")
		require.Contains(t, shown.String(), "<script>alert(1)</script>")
		require.Contains(t, shown.String(), "3,005,000")
		require.NotRegexp(t, `url\(|@import`, stdout)
		_, chart, _ := strings.Cut(stdout, `id="timeline"`)
		chart, _, _ = strings.Cut(chart, "</figure>")
		require.NotRegexp(t, `[xy]="-|\d{7}`, chart, "nothing is drawn outside the chart")
	}
}
