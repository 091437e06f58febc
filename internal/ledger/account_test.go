package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// Package verify tests that both accounts agree.
func TestGap(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		account ledger.Account
		want    int64
	}{
		"nothing":                         {ledger.Account{}, 0},
		"each once":                       {ledger.Account{Accepted: 15, Waiting: 1, UnderReview: 2, Issued: 4, Outcomes: 8}, 0},
		"one lost":                        {ledger.Account{Accepted: 16, Waiting: 1, UnderReview: 2, Issued: 4, Outcomes: 8}, 1},
		"one too many":                    {ledger.Account{Accepted: 14, Waiting: 1, UnderReview: 2, Issued: 4, Outcomes: 8}, -1},
		"all lost":                        {ledger.Account{Accepted: 15}, 15},
		"no promise":                      {ledger.Account{Waiting: 3}, -3},
		"settled, also in the queue":      {ledger.Account{Accepted: 9, Waiting: 9, Issued: 5, Outcomes: 1, InBoth: 6}, 0},
		"also in the queue, and one lost": {ledger.Account{Accepted: 9, Waiting: 8, Issued: 5, InBoth: 5}, 1},
		"settled, also in the DLQ":        {ledger.Account{Accepted: 9, UnderReview: 9, Outcomes: 9, InBoth: 9}, 0},
		"written off":                     {ledger.Account{Accepted: 9, Waiting: 6, WrittenOff: 3}, 0},
		"written off in part":             {ledger.Account{Accepted: 9, Waiting: 5, WrittenOff: 3}, 1},
		"written off and found again":     {ledger.Account{Accepted: 9, Waiting: 9, WrittenOff: 3}, -3},
		"arrivals are no applications":    {ledger.Account{Arrivals: ledger.Arrivals{LastArrival: 1 << 53}}, 0},
		"more than 32 bits":               {ledger.Account{Accepted: 1 << 40, Waiting: 1<<40 - 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, test.account.Gap())
		})
	}
}

func TestAccountReadsThePast(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	for name, test := range map[string]struct {
		insert string
		want   ledger.Past
	}{
		"nothing":              {"", ledger.Past{}},
		"a coupon by hand":     {"INSERT INTO user_coupon (coupon_id, user_id, expires_at) VALUES (?, 1, '2038-01-01')", ledger.Past{Held: true, Coupons: 1}},
		"an outcome":           {"INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at) VALUES (?, 1, NOW(), 'REJECTED', 1, NOW(6))", ledger.Past{Recorded: true}},
		"a run without issues": {"INSERT INTO settlement (run_id, coupon_id, settled_at, cleaned_at) VALUES (1, ?, NOW(6), NOW(6))", ledger.Past{Settled: true}},
		"a pending clean-up":   {"INSERT INTO settlement (run_id, coupon_id, settled_at) VALUES (1, ?, NOW(6))", ledger.Past{Settled: true, Pending: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := d.AddCoupon(5)
			if test.insert != "" {
				d.Exec(test.insert, id)
			}
			tx, err := d.DB.Begin()
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback()) }()
			a, err := (&ledger.Ledger{Store: d.Store}).Account(t.Context(), tx, id)
			require.NoError(t, err)
			require.Equal(t, test.want, a.Past)
		})
	}
}
