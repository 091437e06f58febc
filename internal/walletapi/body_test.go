package walletapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
)

func TestParseReservation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]result{
		`{"couponId":42,"userId":7,"amountWon":32000}`:                                             "",
		" {\n\t\"amountWon\" : 1000000000000, \"userId\":18446744073709551615,\"couponId\":1}\r\n": "",
		``:                 noObject,
		`null`:             noObject,
		`[]`:               noObject,
		`"{}"`:             noObject,
		`{"couponId":42`:   noObject,
		`{"couponId":42,}`: noObject,
		`{"couponId":042,"userId":7,"amountWon":1}`:              noObject,
		`{"couponId":42,"userId":7,"amountWon":1}}`:              noObject,
		`{"couponId":42,"userId":7,"amountWon":1} {}`:            noObject,
		`{"couponId":42,"userId":7,"amountWon":1,"couponId":43}`: memberTwice,
		`{"couponId":42,"userId":7,"amountWon":1,"note":"x"}`:    unknownMember,
		`{"couponid":42,"userId":7,"amountWon":1}`:               unknownMember,
		`{}`: wrongCouponID,
		`{"couponId":0,"userId":7,"amountWon":1}`:                    wrongCouponID,
		`{"couponId":-1,"userId":7,"amountWon":1}`:                   wrongCouponID,
		`{"couponId":"42","userId":7,"amountWon":1}`:                 wrongCouponID,
		`{"couponId":4.2e1,"userId":7,"amountWon":1}`:                wrongCouponID,
		`{"couponId":18446744073709551616,"userId":7,"amountWon":1}`: wrongCouponID,
		`{"couponId":42,"amountWon":1}`:                              wrongUserID,
		`{"couponId":42,"userId":null,"amountWon":1}`:                wrongUserID,
		`{"couponId":42,"userId":[7],"amountWon":1}`:                 wrongUserID,
		`{"couponId":42,"userId":7}`:                                 wrongAmount,
		`{"couponId":42,"userId":7,"amountWon":0}`:                   wrongAmount,
		`{"couponId":42,"userId":7,"amountWon":-5}`:                  wrongAmount,
		`{"couponId":42,"userId":7,"amountWon":1.0}`:                 wrongAmount,
		`{"couponId":42,"userId":7,"amountWon":1e3}`:                 wrongAmount,
		`{"couponId":42,"userId":7,"amountWon":true}`:                wrongAmount,
		`{"couponId":42,"userId":7,"amountWon":1000000000001}`:       wrongAmount,
	} {
		_, problem := parseReservation([]byte(text))
		require.Equal(t, want, problem, text)
	}
}

// A body that is accepted has exactly the three numbers, and package json reads the same.
func FuzzParseReservation(f *testing.F) {
	f.Add([]byte(`{"couponId":42,"userId":7,"amountWon":32000}`))
	f.Add([]byte(`{"couponId":42,"userId":7,"amountWon":32000,"amountWon":1}`))
	f.Add([]byte(`{"couponId":4e1,"userId":"7","amountWon":-1}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		wish, problem := parseReservation(content)
		if problem != "" {
			require.Contains(t, problems, problem)
			require.Zero(t, wish)
			return
		}
		var members map[string]json.Number
		require.NoError(t, json.Unmarshal(content, &members))
		require.Equal(t, map[string]json.Number{
			"couponId":  json.Number(fmt.Sprint(wish.coupon)),
			"userId":    json.Number(fmt.Sprint(wish.user)),
			"amountWon": json.Number(strconv.FormatInt(wish.amountWon, 10)),
		}, members)
		require.NotZero(t, wish.coupon)
		require.NotZero(t, wish.user)
		require.True(t, wish.amountWon >= 1 && wish.amountWon <= coupon.MaxWon)
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte("# keys\n\ncheckout " + strings.Repeat("0aF9", 16) + "\r\ncheckout " + strings.Repeat("1", 64)))
	f.Fuzz(func(t *testing.T, content []byte) {
		keys, err := parseKeys(content)
		if err != nil {
			require.Empty(t, keys)
			return
		}
		var again strings.Builder
		for i, key := range keys {
			require.Regexp(t, nameForm, key.name)
			require.False(t, slices.ContainsFunc(keys[:i], func(k serviceKey) bool { return k.hash == key.hash }),
				"a key has one name")
			fmt.Fprintf(&again, "%s %x\n", key.name, key.hash)
		}
		same, err := parseKeys([]byte(again.String()))
		require.NoError(t, err)
		require.Equal(t, keys, same)
	})
}

func TestValidOrderID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"A-1": true, ".a": true, "...": true, "_": true, strings.Repeat("x", 64): true,
		"2026/11/20:7": true, "주문-1": true, "주문/2026:11#7?%+&=\\\"'<>": true, "ㅋ": true, "é": true, "№7": true,
		"🛒":                     true,
		strings.Repeat("가", 64): true, "a/.b/..c": true,
		"": false, ".": false, "..": false, "a/../b": false, "a/.": false, "./a": false, "/a": false, "a/": false,
		"a//b": false,
		"a b":  false, " a": false, "a\u00a0": false, "a\u3000b": false, "a\n": false, "a\x00": false, "a\u007f": false,
		// Invisible, or turning the direction.
		"a\u200b": false, "a\u200d": false, "a\u202e": false, "a\ufeff": false, "a\u00ad": false,
		// Letters and symbols that nobody sees.
		"a\u3164": false, "\u115f": false, "\uffa0": false, "\u2800": false, "🛒\ufe0f": false,
		// Another spelling of é, 한 and Å; a mark.
		"e\u0301": false, "\u1112\u1161\u11ab": false, "\u212b": false, "ก\u0e31": false,
		"a\xff": false, "a\ufffd": false, "\ue000": false, "\u0378": false, strings.Repeat("x", 65): false,
		strings.Repeat("가", 65): false,
	} {
		require.Equal(t, want, validOrderID(id), "%q", id)
	}
}

// Every problem has all texts; problems with one code share status and titles.
func TestProblems_AreComplete(t *testing.T) {
	t.Parallel()
	titles := map[result]httpapi.Problem{}
	for r, p := range problems {
		for _, sentences := range []words{p.Korean, p.English} {
			require.NotEmpty(t, sentences.Title, r)
			require.NotEmpty(t, sentences.Detail, r)
		}
		require.Equal(t, p.Status >= 503 || p.Status == 429, p.RetryAfter > 0, r)
		if first, known := titles[p.Code]; known {
			require.Equal(t, first.Status, p.Status, r)
			require.Equal(t, first.Korean.Title, p.Korean.Title, r)
			require.Equal(t, first.English.Title, p.English.Title, r)
		}
		titles[p.Code] = p
	}
	require.Equal(t, internal, problems.Of("SOMETHING_NEW").Code, "an unknown result is no success")
}
