package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
)

// argsOf are such as each kind has, so that a slip of the format shows.
var argsOf = map[settle.Kind][]any{
	settle.NoSuchCoupon: {uint64(42)}, settle.NotUnderReview: {"7", uint64(42)}, settle.CouponBusy: nil, settle.TakenOver: nil,
	settle.NotDropped: {"7", errors.New("x")}, settle.SameArrival: {"kim"}, settle.MoreStay: {3},
	settle.OtherWinners: {3, "sha256:a", "sha256:b"}, settle.Stopped: {context.Canceled}, settle.StoppedAfter: {context.Canceled, 2, 5},
}

// argsOfCoupons are the same for couponadmin.Error.
var argsOfCoupons = map[couponadmin.Kind][]any{
	couponadmin.NoSuchCoupon: {uint64(42)}, couponadmin.NotShut: {uint64(42), errors.New("x")},
	couponadmin.WrongName: {"", 200}, couponadmin.WrongSeats: {int64(0), int64(9)}, couponadmin.WrongDays: {int64(0), 9}, couponadmin.WrongDiscount: {int64(-1), 9},
}

// What is told people is told in both languages, whatever it is wrapped in; what is behind it stays known.
func TestErrorsInBothLanguages(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, settle.Kinds(), func() (kinds []settle.Kind) {
		for kind := range argsOf {
			kinds = append(kinds, kind)
		}
		return kinds
	}())
	var all []error
	for kind, args := range argsOf {
		all = append(all, &settle.Told{Kind: kind, Args: args})
	}
	require.Len(t, argsOfCoupons, len(couponadmin.English))
	for kind, args := range argsOfCoupons {
		all = append(all, &couponadmin.Error{Kind: kind, Args: args})
	}
	all = append(all, &mysqltx.Interrupted{Cause: context.Canceled, Err: errors.New("x")}, &mysqltx.Interrupted{Cause: context.Canceled, Err: errors.New("x"), CommitUnknown: true}, &settle.CountHeld{Coupon: 42, Counted: 0, Found: 100, Seats: 100}, &settle.GapHeld{Gap: 3, Account: ledger.Account{Accepted: 9}},
		fmt.Errorf("coupon 9: %w", ledger.ErrNoCoupon), fmt.Errorf("run 9: %w", history.ErrNoRun))
	for _, err := range all {
		for _, wrapped := range []error{err, fmt.Errorf("%w; nothing was moved", err), errors.Join(err, exitError(1))} {
			for l, speaks := range map[language]bool{korean: true, english: false} {
				said := l.tell(wrapped)
				require.Equal(t, speaks, hangul.MatchString(said), "%s: %s", l, said)
				require.NotContains(t, said, "%!")
			}
		}
	}
	require.ErrorIs(t, &settle.Told{Kind: settle.Stopped, Args: argsOf[settle.Stopped]}, context.Canceled)
	several := korean.tell(errors.Join(all[0], errors.New("connection refused")))
	require.Contains(t, several, "\nconnection refused", "what a server says stays as it is")
	for _, advice := range []string{settle.SafeToRunAgain, settle.AdviseMigrate, settle.AdviseGrants, settle.AdviseRedis} {
		require.Regexp(t, hangul, korean.advise(advice))
		require.Equal(t, advice, english.advise(advice))
	}
}
