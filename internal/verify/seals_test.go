package verify_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/verify"
	"github.com/jajeong/jajeong/internal/wallet"
)

// night is a check of all coupons that leaves out what is sealed.
type night struct {
	checked []coupon.CouponID
	found   found
	sealed  verify.Sealed
}

// checkAll checks and seals as `settle verify` does. It is the turn of the first coupon, which is open.
func (c *fixture) checkAll(all bool) night {
	c.T.Helper()
	c.turnTo(0)
	return c.checkNext(all)
}

func (c *fixture) turnTo(id coupon.CouponID) {
	c.T.Helper()
	c.Exec("REPLACE INTO verify_progress (name, value) VALUES ('turn of coupon', ?)", id)
}

func (c *fixture) checkNext(all bool) (n night) {
	c.T.Helper()
	ctx := c.T.Context()
	plan, err := c.verifier.Plan(ctx, c.DB, all)
	require.NoError(c.T, err)
	n.checked, n.found, n.sealed = plan.Coupons, found{}, plan.Sealed
	for _, id := range plan.Coupons {
		require.NoError(c.T, c.verifier.List(ctx, c.DB, id))
		v, err := c.verifier.Check(ctx, c.DB, id)
		require.NoError(c.T, err)
		require.NoError(c.T, c.verifier.Seal(ctx, c.DB, v))
		for _, f := range v.Findings {
			if !f.OfCreation() {
				n.found[f.Code] += f.Count
			}
		}
	}
	strays, err := c.verifier.Strays(ctx, c.DB, plan)
	require.NoError(c.T, err)
	for _, f := range strays {
		n.found[f.Code] += f.Count
	}
	require.NoError(c.T, plan.Done(ctx, c.DB))
	return n
}

// pass lets the day pass in which runs and changes that were checked are checked again.
func (c *fixture) pass() {
	c.T.Helper()
	for name, column := range map[string]string{"settlement": "run_id", "audit_event": "id", "coupon_log": "id",
		"coupon": "id", "user_coupon": "id"} {
		c.Exec("REPLACE INTO verify_progress (name, value) SELECT ?, COALESCE(MAX("+column+"), 0) FROM "+name, name)
	}
	c.Exec("UPDATE verify_progress SET value = ? WHERE name = 'finalised'", c.Now().UnixMicro())
}

// sealed makes a coupon with three winners and two others who applied, and lets a night seal it.
func sealed(t *testing.T) *fixture {
	c := newDeployment(t)
	c.id = c.AddCoupon(1) // not finalised: every night checks it
	open := c.id
	c.Deployment = c.For(t)
	c.id = open + 1
	c.AddFinished(3, jajeongtest.Between(c.user(1), c.user(5))...)
	c.Exec("UPDATE user_coupon SET expires_at = expires_at + INTERVAL 20 YEAR")
	c.Exec("UPDATE coupon SET validity_days = validity_days + 7305 WHERE id = ?", c.id)
	c.checkout(3, c.order(9), wallet.Reserve, wallet.Release) // two days ago
	c.Exec("UPDATE coupon_log SET at = at - INTERVAL 2 DAY")
	n := c.checkAll(false)
	require.Equal(t, []coupon.CouponID{open, c.id}, n.checked)
	require.Empty(t, n.found)
	c.pass()
	n = c.checkAll(false)
	require.Equal(t, []coupon.CouponID{open}, n.checked)
	require.EqualValues(t, 1, n.sealed.Left)
	require.WithinDuration(t, time.Now(), *n.sealed.Oldest, time.Hour)
	return c
}

// requireChecked demands that the next night checks the coupon, or does not, with these findings.
func (c *fixture) requireChecked(want bool, codes found) night {
	c.T.Helper()
	n := c.checkAll(false)
	if want {
		require.Equal(c.T, []coupon.CouponID{c.id - 1, c.id}, n.checked)
	} else {
		require.Equal(c.T, []coupon.CouponID{c.id - 1}, n.checked)
	}
	require.Equal(c.T, codes, n.found)
	return n
}

func TestSealedCouponIsCheckedAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *fixture){
		"an audit event": func(c *fixture) {
			require.NoError(c.T, c.Audit(auditOrigin, audit.CouponClosed, c.id, audit.Entry{}))
		},
		"it could not be checked": func(c *fixture) {
			require.NoError(c.T, c.verifier.NoteUnchecked(c.T.Context(), c.DB, c.id))
		},
		"somebody deleted its seal": func(c *fixture) {
			c.change(1, "DELETE FROM seal")
			c.Exec("UPDATE verify_progress SET value = 0 WHERE name = 'finalised'")
		},
		"it is not finalised any more": alterCoupon("finalised_at = NULL"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sealed(t)
			change(c)
			c.requireChecked(true, found{})
		})
	}
}

func TestUseOfSealedCouponIsReplayed(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.checkout(1, c.order(1), wallet.Reserve, wallet.Confirm)
	require.Equal(t, 2, c.requireChecked(false, found{}).sealed.Replayed)
	alterLog(1, 2, "amount_won = 1")(c)
	require.Positive(t, c.requireChecked(true, found{verify.LogWrong: 1}).found[verify.LogWrong])
	c.pass()
	c.requireChecked(true, found{verify.LogWrong: 1}) // until it is right
	alterLog(1, 2, "amount_won = 12000")(c)
	c.requireChecked(true, found{})
	c.requireChecked(false, found{})
}

// These changes agree with everything else: no other check finds them.
func TestChangeOfSealedRowsIsFound(t *testing.T) {
	t.Parallel()
	unused := []string{"UPDATE user_coupon SET status = 'ISSUED', order_id = NULL, seq = 0 " +
		"WHERE coupon_id = ? AND position = 3",
		"DELETE l FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id " +
			"WHERE u.coupon_id = ? AND u.position = 3",
		"DELETE o FROM coupon_order o JOIN user_coupon u ON u.id = o.user_coupon_id " +
			"WHERE u.coupon_id = ? AND u.position = 3"}
	for name, changes := range map[string][]string{
		"another user": {"UPDATE application_outcome SET user_id = user_id + 70 WHERE coupon_id = ? LIMIT 1"},
		"another time": {"UPDATE application_outcome SET applied_at = applied_at + INTERVAL 1 SECOND " +
			"WHERE coupon_id = ? LIMIT 1"},
		"another user id": {"UPDATE user_coupon SET id = id + 70 WHERE coupon_id = ? AND position = 2"},
		"a use is gone":   unused,
		"another name":    {"UPDATE coupon SET name = 'another' WHERE id = ?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sealed(t)
			c.addUsers(71, 78)
			for _, change := range changes {
				c.Exec(change, c.id)
			}
			c.requireChecked(false, found{})
			c.turnTo(c.id)
			n := c.checkNext(false)
			require.Equal(t, []coupon.CouponID{c.id - 1, c.id}, n.checked)
			require.Equal(t, found{verify.SealBroken: 1}, n.found)
			c.requireChecked(true, found{verify.SealBroken: 1}) // until it is right
			c.Exec("UPDATE seal SET digest = ''")               // the change was right
			c.requireChecked(true, found{})
			c.requireChecked(false, found{})
		})
	}
}

func TestChangeOfASealedGrantIsFound(t *testing.T) {
	t.Parallel()
	c := newDeployment(t)
	c.id = c.AddFinished(2, c.user(1))
	c.addUsers(2, 3)
	c.giveByHand(2)
	for _, column := range []string{"issued_at", "expires_at"} {
		c.Exec("UPDATE user_coupon SET " + column + " = " + column + " - INTERVAL 2 DAY WHERE run_id IS NULL")
	}
	c.Exec("UPDATE coupon_log SET at = at - INTERVAL 2 DAY, expires_at = expires_at - INTERVAL 2 DAY")
	require.Empty(t, c.checkNext(true).found)
	c.Exec("UPDATE user_coupon SET user_id = user_id + 1 WHERE run_id IS NULL")
	require.Equal(t, found{verify.SealBroken: 1}, c.checkNext(true).found)
}

// A run ends no seal that was found broken.
func TestBrokenSealStaysAfterARun(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.Exec("UPDATE application_outcome SET user_id = user_id + 70 WHERE coupon_id = ? LIMIT 1", c.id)
	v, err := c.verifier.Check(t.Context(), c.DB, c.id)
	require.NoError(t, err)
	require.NoError(t, c.verifier.NoteWrong(t.Context(), c.DB, v), "a check of this coupon alone")
	c.requireChecked(true, found{verify.SealBroken: 1})
	c.Exec("INSERT INTO settlement (run_id, coupon_id, winners_digest, settled_at, cleaned_at) "+
		"VALUES (99, ?, '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))", c.id)
	require.EqualValues(t, 1, c.checkAll(false).found[verify.SealBroken])
	c.Exec("DELETE FROM settlement WHERE run_id = 99")
	c.Exec("UPDATE seal SET digest = '', wrong = TRUE")
	c.requireChecked(true, found{})
	c.requireChecked(false, found{})
}

// Seats are added to a sealed coupon whose rows were changed: the next run would give one to somebody who never
// applied.
func TestSealOfACouponWithSeatsAdded(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.Exec("UPDATE coupon SET finalised_at = NULL WHERE id = ?", c.id)
	require.Empty(t, c.checkAll(false).found)
	c.Exec("UPDATE application_outcome SET user_id = user_id + 70 WHERE coupon_id = ? LIMIT 1", c.id)
	c.requireChecked(true, found{verify.SealBroken: 1})
	c.Exec("UPDATE coupon SET finalised_at = apply_closes_at WHERE id = ?", c.id)
	c.requireChecked(true, found{verify.SealBroken: 1})
}

// A further record ends a seal, whatever the number of its run: the run may have begun before the last one. One record
// less does not.
func TestSealEndsWithAFurtherRecord(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.Exec("UPDATE settlement SET run_id = run_id + 50 WHERE coupon_id = ?", c.id)
	c.Exec("UPDATE seal SET digest = '', wrong = TRUE")
	c.checkAll(true)
	c.Exec("INSERT INTO settlement (run_id, coupon_id, winners_digest, settled_at, cleaned_at) "+
		"VALUES (40, ?, '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))", c.id)
	require.Zero(t, c.checkAll(true).found[verify.SealBroken])

	other := sealed(t)
	other.Exec("UPDATE seal SET records = records + 1")
	other.Exec("UPDATE application_outcome SET user_id = user_id + 70 WHERE coupon_id = ? LIMIT 1", other.id)
	require.Equal(t, found{verify.SealBroken: 1}, other.checkAll(true).found)
}

// A warning that stays for ever keeps no coupon from being sealed.
func TestSealOfACouponWithPromisesUnknown(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.Exec("INSERT INTO journal (coupon_id, unfound) VALUES (?, 1) ON DUPLICATE KEY UPDATE unfound = 1", c.id)
	require.Equal(t, found{verify.PromiseUnknown: 1}, c.checkAll(true).found)
	c.pass()
	c.requireChecked(false, found{})
	c.Exec("UPDATE application_outcome SET user_id = user_id + 70 WHERE coupon_id = ? LIMIT 1", c.id)
	require.EqualValues(t, 1, c.checkAll(true).found[verify.SealBroken])
}

// Whoever was lost in the list of applications is added in the turn of the coupon.
func TestTurnListsApplicationsAgain(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	listed := func() int64 { return c.Number("SELECT COUNT(*) FROM user_application WHERE coupon_id = ?", c.id) }
	before := listed()
	require.NotZero(t, before)
	c.Exec("DELETE FROM user_application")
	c.turnTo(c.id)
	c.checkNext(false)
	require.Equal(t, before, listed())
}

// A coupon that the last check has looked at does not miss its turn.
func TestTurnComesAfterACheckOfAll(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.turnTo(c.id)
	require.Empty(t, c.checkNext(true).found)
	c.Exec("UPDATE application_outcome SET user_id = user_id + 70 WHERE coupon_id = ? LIMIT 1", c.id)
	require.Equal(t, found{verify.SealBroken: 1}, c.checkNext(false).found)
}

// What a check of all rows has found is found by the next ones, too, wherever their turns stand.
func TestStraysOfACheckOfAllAreFoundAgain(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.AddHistory(jajeongtest.History{Of: c.id, Nights: 200, PerNight: 1})
	c.pass()
	for range 3 {
		c.checkNext(false)
	}
	c.withoutForeignKeys(func(exec func(string)) {
		exec("DELETE FROM user_coupon WHERE id = (SELECT MIN(user_coupon_id) FROM coupon_log)")
	})
	c.Exec("UPDATE audit_event SET coupon_id = 99999 WHERE coupon_id IS NOT NULL LIMIT 1")
	c.Exec("UPDATE settlement_run SET finished_at = NULL LIMIT 1")
	c.Exec("INSERT INTO seal (coupon_id, sealed_at, checked_at, wrong) VALUES (0, NOW(6), NOW(6), FALSE)")
	strays := func(all bool) (codes found) {
		plan, err := c.verifier.Plan(t.Context(), c.DB, all)
		require.NoError(t, err)
		of, err := c.verifier.Strays(t.Context(), c.DB, plan)
		require.NoError(t, err)
		require.NoError(t, plan.Done(t.Context(), c.DB))
		codes = found{}
		for _, f := range of {
			codes[f.Code] += f.Count
		}
		return codes
	}
	want := strays(true)
	require.NotZero(t, want[verify.LogWrong])
	require.EqualValues(t, 1, want[verify.AuditInserted])
	require.EqualValues(t, 1, want[verify.RunWrong])
	require.EqualValues(t, 1, want[verify.CouponMissing])
	for range 3 {
		got := strays(false)
		require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	}
}

// Progress that no check can have made is taken back.
func TestProgressThatCannotBeIsTakenBack(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.Exec("UPDATE verify_progress SET value = 1000000000000")
	c.Exec("UPDATE verify_progress SET value = 9000000000000000 WHERE name = 'finalised'")
	c.checkout(1, c.order(1), wallet.Reserve)
	alterLog(1, 1, "amount_won = 1")(c)
	require.EqualValues(t, 1, c.requireChecked(true, found{verify.LogWrong: 1}).found[verify.LogWrong])
	highest := c.Number("SELECT MAX(value) FROM verify_progress WHERE name NOT IN ('finalised', 'ended')")
	require.Less(t, highest, int64(1000))
}

// Somebody deleted a coupon with all its rows but its seal.
func TestSealOfACouponThatIsGone(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.Exec("INSERT INTO seal (coupon_id, sealed_at, checked_at, wrong) VALUES (?, NOW(6), NOW(6), FALSE)", c.id+7)
	c.requireChecked(false, found{verify.CouponMissing: 1})
}

// A use of the last day may still be committed as the digest is computed: it does not cover it.
func TestUseOfTheLastDayIsNotSealed(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.checkout(2, c.order(2), wallet.Reserve)
	require.Empty(t, c.checkAll(true).found)
	c.checkout(2, c.order(2), wallet.Confirm)
	require.Empty(t, c.checkAll(true).found)
	c.Exec("UPDATE coupon_log SET at = at - INTERVAL 1 SECOND WHERE at > UTC_TIMESTAMP(6) - INTERVAL 1 DAY")
	require.Empty(t, c.checkAll(true).found)
}

// What has changed between the check and its seal is not sealed.
func TestSealOfAChangedCoupon(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *fixture){
		"an audit event": func(c *fixture) {
			require.NoError(c.T, c.Audit(auditOrigin, audit.CouponClosed, c.id, audit.Entry{}))
		},
		"a run": func(c *fixture) {
			c.Exec("INSERT INTO settlement (run_id, coupon_id, winners_digest, settled_at) "+
				"VALUES (77, ?, '', UTC_TIMESTAMP(6))", c.id)
		},
		"it is not finalised any more": alterCoupon("finalised_at = NULL"),
		"a purge": func(c *fixture) {
			c.beginPurge()
		},
		"a later check": func(c *fixture) {
			require.NoError(c.T, c.verifier.NoteUnchecked(c.T.Context(), c.DB, c.id))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sealed(t)
			c.Exec("UPDATE seal SET digest = ''")
			v, err := c.verifier.Check(t.Context(), c.DB, c.id)
			require.NoError(t, err)
			require.False(t, v.Violated())
			change(c)
			require.NoError(t, c.verifier.Seal(t.Context(), c.DB, v))
			require.Zero(t, c.Number("SELECT COUNT(*) FROM seal WHERE digest <> ''"))
		})
	}
}

func (c *fixture) beginPurge() {
	c.T.Helper()
	c.Exec(`INSERT INTO purged_coupon SELECT id, name, NULL, apply_opens_at, apply_closes_at, finalised_at, 0, 0, 0,
		0, 0, 0, 0, 0, 0, '', '', '', apply_opens_at, NULL FROM coupon WHERE id = ?`, c.id)
}

// A purge that has begun deletes rows that the check would miss.
func TestCheckOfACouponThatIsPurged(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.beginPurge()
	c.Exec("DELETE FROM user_coupon WHERE coupon_id = ? LIMIT 1", c.id)
	_, err := c.verifier.Check(t.Context(), c.DB, c.id)
	require.ErrorIs(t, err, verify.ErrPurged)
	require.Equal(t, []coupon.CouponID{c.id - 1}, c.checkAll(true).checked)
}

// An audit chain that was written anew agrees with itself.
func TestRewrittenAuditChainIsFound(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.audit(2)
	c.requireChecked(true, found{})
	c.Exec("DELETE FROM audit_event")
	c.Exec("DELETE FROM audit_head")
	origin := auditOrigin
	origin.Reason = "another one"
	require.NoError(t, c.Audit(origin, audit.DLQDropped, c.id, make([]audit.Entry, 2)...))
	require.EqualValues(t, 1, c.checkAll(true).found[verify.SealBroken])
}

// A night costs what the night and the uses since the last one cost, a ninetieth of the history, and an entry of an
// index for each coupon.
func TestNightIsAsCheapWithTenTimesTheHistory(t *testing.T) {
	t.Parallel()
	cost := func(nights int) jajeongtest.Cost {
		c := sealed(t)
		c.AddHistory(jajeongtest.History{Of: c.id, Nights: nights, PerNight: 1})
		c.pass()
		c.checkout(1, c.order(1), wallet.Reserve)
		c.turnTo(c.id + 10)
		ctx := t.Context()
		return c.CostOf(func(db *sql.DB) {
			plan, err := c.verifier.Plan(ctx, db, false)
			require.NoError(t, err)
			require.Equal(t, 1, plan.Sealed.Replayed)
			require.EqualValues(t, nights+2-len(plan.Coupons), plan.Sealed.Left)
			strays, err := c.verifier.Strays(ctx, db, plan)
			require.NoError(t, err)
			require.Empty(t, strays)
			v, err := c.verifier.Check(ctx, db, c.id-1) // the copies have other digests
			require.NoError(t, err)
			require.NoError(t, c.verifier.Seal(ctx, db, v))
			require.NoError(t, plan.Done(ctx, db))
		})
	}
	tenth, whole := cost(30), cost(300)
	t.Logf("a night of verify: %v; with ten times the history %v", tenth, whole)
	require.LessOrEqual(t, whole.Statements, tenth.Statements+11, "a turn of a rule may have found no row")
	const rowsEach = 20 // of a coupon; each is looked up in another table, and its outcomes are listed
	require.LessOrEqual(t, whole.Rows, tenth.Rows+270+2*270*rowsEach/90+20)
}

// Every coupon has its turn within 90 checks, and no check takes more than its part, also if all were sealed at once
// and ids have gaps.
func TestEveryCouponHasItsTurn(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.AddHistory(jajeongtest.History{Of: c.id, Nights: 200, PerNight: 1})
	c.withoutForeignKeys(func(exec func(string)) {
		exec(fmt.Sprintf("UPDATE coupon SET id = id + 1000000 WHERE id > %d", c.id+150))
		exec(fmt.Sprintf("UPDATE seal SET coupon_id = coupon_id + 1000000 WHERE coupon_id > %d", c.id+150))
	})
	c.pass()
	seen := map[coupon.CouponID]int{}
	for range 91 { // the turn through 202 coupons, three at a time, begins again
		plan, err := c.verifier.Plan(t.Context(), c.DB, false)
		require.NoError(t, err)
		require.LessOrEqual(t, len(plan.Coupons), 4)
		for _, id := range plan.Coupons {
			seen[id]++
		}
		require.NoError(t, plan.Done(t.Context(), c.DB))
	}
	require.Len(t, seen, 202)
}

// The turn through a table passes every row within 90 checks, and what it has found is found until it is gone.
func TestStraysHaveTheirTurn(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.AddHistory(jajeongtest.History{Of: c.id, Nights: 30, PerNight: 1})
	c.Exec("DELETE FROM seal WHERE coupon_id > ?", c.id) // copies have other digests
	require.Empty(t, c.checkAll(true).found)
	c.pass()
	hidden, gone := c.id+8, c.id+16
	c.Exec("UPDATE coupon SET issued_count = 0, finalised_at = '2020-01-02' WHERE id = ?", hidden)
	c.Exec("DELETE FROM seal WHERE coupon_id = ?", hidden)
	c.withoutForeignKeys(func(exec func(string)) { exec("DELETE FROM coupon WHERE id = " + gone.String()) })
	seen := map[verify.Code]int{} // in which check
	for n := 1; seen[verify.CountWrong] == 0 || seen[verify.CouponMissing] == 0; n++ {
		require.Less(t, n, 92)
		for code := range c.checkNext(false).found {
			seen[code] = cmp.Or(seen[code], n)
		}
	}
	require.Greater(t, seen[verify.CountWrong], 3, "the others are left out")
	require.Greater(t, seen[verify.CouponMissing], 10)
	require.NotEmpty(t, c.checkNext(false).found[verify.CouponMissing], "it is still there")
	require.EqualValues(t, 5, c.checkAll(true).found[verify.CouponMissing], "in five tables")
}

// A stray of one table, or an audit event without a coupon, stops no other turn.
func TestStraysStopNoOtherTurn(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.AddHistory(jajeongtest.History{Of: c.id, Nights: 88, PerNight: 1})
	c.pass()
	c.Exec("INSERT INTO audit_event (account, actor, action, seq) VALUES ('', 'kim', 'IMPORT', NULL)")
	c.Exec("INSERT INTO seal (coupon_id, sealed_at, checked_at, wrong) VALUES (77777, NOW(6), NOW(6), FALSE)")
	seen := map[coupon.CouponID]bool{}
	for range 90 {
		plan, err := c.verifier.Plan(t.Context(), c.DB, false)
		require.NoError(t, err)
		for _, id := range plan.Coupons {
			seen[id] = true
		}
		strays, err := c.verifier.Strays(t.Context(), c.DB, plan)
		require.NoError(t, err)
		require.Len(t, strays, 2)
		require.NoError(t, plan.Done(t.Context(), c.DB))
	}
	require.Len(t, seen, 90)
}

// A check that was stopped has sealed what it has looked at. The next one looks at the rest of the turn.
func TestTurnGoesOnAfterAStoppedCheck(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.AddHistory(jajeongtest.History{Of: c.id, Nights: 300, PerNight: 1})
	c.pass()
	c.turnTo(c.id + 1)
	plan, err := c.verifier.Plan(t.Context(), c.DB, false)
	require.NoError(t, err)
	require.Len(t, plan.Coupons, 5)
	// The last check began a day and a second ago.
	c.Exec("UPDATE verify_progress SET value = value - 86401000000 WHERE name = 'finalised'")
	c.Exec("UPDATE seal SET checked_at = UTC_TIMESTAMP(6) WHERE coupon_id IN (?, ?)", plan.Coupons[1], plan.Coupons[2])
	rest, err := c.verifier.Plan(t.Context(), c.DB, false)
	require.NoError(t, err)
	require.Equal(t, []coupon.CouponID{plan.Coupons[0], plan.Coupons[3], plan.Coupons[4]}, rest.Coupons)
}

// A coupon that lost its end once can lose it again: it is not sealed yet.
func TestSealWaitsUntilTheEndIsSafe(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.Exec("UPDATE seal SET digest = ''")
	c.Exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) - INTERVAL 4 MINUTE WHERE id = ?", c.id)
	v, err := c.verifier.Check(t.Context(), c.DB, c.id)
	require.NoError(t, err)
	require.NoError(t, c.verifier.Seal(t.Context(), c.DB, v))
	require.Zero(t, c.Number("SELECT COUNT(*) FROM seal WHERE digest <> ''"))
}

// Rows of any coupon id are found by few statements.
func TestStraysOfHighIDs(t *testing.T) {
	t.Parallel()
	c := sealed(t)
	c.Exec(`INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, note, run_id, recorded_at) VALUES
		(1099511627776, 1, UTC_TIMESTAMP(6), 'NOT_SELECTED', '', 1, UTC_TIMESTAMP(6)),
		(18446744073709551615, 1, UTC_TIMESTAMP(6), 'NOT_SELECTED', '', 1, UTC_TIMESTAMP(6))`)
	for range 2 {
		for _, all := range []bool{false, true} {
			require.Equal(t, found{verify.CouponMissing: 2}, c.checkAll(all).found)
		}
	}
}
