package live

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/missing"
)

// While applications are restored, nobody who is found nowhere is told NOT_APPLIED: neither newcomers nor those who
// were told so before, and may have applied in another window since.
func TestRestoringIsUnknown(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		early := s.open(7)
		pass(2 * time.Second)
		early.requireLast(`"NOT_APPLIED"`)
		s.change(func() { s.since, s.verdict = 2, missing.Restoring })
		late := s.open(8)
		pass(3 * time.Second)
		early.requireLast(`{"status":"UNKNOWN","couponId":42,"userId":7,"delayed":true}`)
		late.requireLast(`{"status":"UNKNOWN","couponId":42,"userId":8,"delayed":true}`)
		require.Len(t, late.events(), 1, "nothing but that")

		s.change(func() { s.queue, s.verdict = []coupon.UserID{8}, missing.MayBeLost })
		pass(4 * time.Second)
		late.requireLast(`"position":1,`)
		early.requireLast(`{"status":"NOT_APPLIED","couponId":42,"userId":7,"mayBeLost":true}`)
		s.change(func() { s.verdict, s.restored.Missing = missing.NotApplied, 3 })
		pass(4 * time.Second)
		early.requireLast(`{"status":"NOT_APPLIED","couponId":42,"userId":7}`)
		early.hangUp()
		late.hangUp()
	})
}

// Nobody knows whether applications are missing, because MySQL is away.
func TestSuspicionWithoutMySQLIsUnknown(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.verdict, s.mysqlAway = missing.MayBeLost, true
		p := s.open(7)
		pass(10 * time.Second)
		p.requireLast(`{"status":"UNKNOWN","couponId":42,"userId":7,"delayed":true}`)
		require.Less(t, s.count().verdicts, 10, "every two seconds")
		s.change(func() { s.mysqlAway = false })
		pass(4 * time.Second)
		p.requireLast(`"NOT_APPLIED","couponId":42,"userId":7,"mayBeLost":true`)
		p.hangUp()
	})
}
