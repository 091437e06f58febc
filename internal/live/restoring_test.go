package live

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// fail replaces the server of Redis by one that was not restored yet, and that has lost everything.
func (s *servers) fail() {
	s.queue, s.since, s.toCome, s.accepted = nil, coupon.ArrivalAt(time.Now()), true, 0
}

// restore ends a restore, which has left some promises.
func (s *servers) restore(left int64, found ...coupon.UserID) {
	s.queue, s.toCome, s.left, s.accepted = found, false, left, int64(len(found))+left
	s.restores++
}

// While applications are restored, nobody who is found nowhere is told NOT_APPLIED: neither newcomers nor those who
// were told so before, and may have applied in another window since.
func TestRestoringIsUnknown(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		early := s.open(7)
		pass(2 * time.Second)
		early.requireLast(`"NOT_APPLIED"`)
		s.change(s.fail)
		late := s.open(8)
		pass(3 * time.Second)
		early.requireLast(`{"status":"UNKNOWN","couponId":42,"userId":7,"delayed":true}`)
		late.requireLast(`{"status":"UNKNOWN","couponId":42,"userId":8,"delayed":true}`)
		require.Len(t, late.events(), 1, "nothing but that")

		s.change(func() { s.restore(2, 8) })
		pass(4 * time.Second)
		late.requireLast(`"position":1,`)
		early.requireLast(`{"status":"NOT_APPLIED","couponId":42,"userId":7,"mayBeLost":true}`)
		s.change(func() { s.restore(0, 5, 6, 8) })
		pass(4 * time.Second)
		late.requireLast(`"position":3,`)
		early.requireLast(`{"status":"NOT_APPLIED","couponId":42,"userId":7}`)
		early.hangUp()
		late.hangUp()
	})
}

// Without a restore, the streams do not wait for ever.
func TestRestoringLastsAMinute(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.change(func() { s.fail(); s.books.Accepted = 1 })
		p := s.open(7)
		pass(50 * time.Second)
		p.requireLast(`"UNKNOWN"`)
		pass(15 * time.Second)
		p.requireLast(`{"status":"NOT_APPLIED","couponId":42,"userId":7,"mayBeLost":true}`)
		p.hangUp()
	})
}

// A server that has lost a clean-up has a user in the queue who has the coupon.
func TestIssuedIsNotPendingWhileMarksAreRestored(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		issued := theCoupon
		issued.IssuedCount = 1
		s.shown = issued
		s.line(2)
		s.outcomes[1] = coupon.StandingIssued
		s.toCome = true
		winner, other := s.open(1), s.open(2)
		pass(2 * time.Second)
		winner.requireLast(`"ISSUED"`)
		require.Len(t, winner.events(), 1)
		other.requireLast(`"position":2,`)
		require.Equal(t, 2, s.count().histories)
		other.hangUp()
	})
}

// Nobody knows whether applications are missing, because MySQL is away.
func TestSuspicionWithoutMySQLIsUnknown(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.restore(1)
		s.mysqlAway = true
		p := s.open(7)
		pass(10 * time.Second)
		p.requireLast(`{"status":"UNKNOWN","couponId":42,"userId":7,"delayed":true}`)
		require.Less(t, s.count().histories, 10, "every two seconds")
		s.change(func() { s.mysqlAway = false })
		pass(4 * time.Second)
		p.requireLast(`"NOT_APPLIED","couponId":42,"userId":7,"mayBeLost":true`)
		p.hangUp()
	})
}

// A look sees that the server is new only if it misses somebody: the room does not take that for a change.
func TestServerWithoutEpochWakesNobody(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.line(9)
		p := s.open(9)
		pass(2 * time.Second)
		since := s.since
		for range 3 {
			s.change(func() { s.since = 0 })
			pass(time.Second)
			s.change(func() { s.since = since })
			pass(time.Second)
		}
		require.Equal(t, 1, s.count().asked)
		s.change(func() { s.since++ })
		pass(2 * time.Second)
		require.Equal(t, 2, s.count().asked)
		p.hangUp()
	})
}

// A restore enters somebody between two who wait: the first keeps the place, and the second is one further back.
func TestRestoredAreCountedOnlyAheadOfOthers(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.queue = []coupon.UserID{3, 9}
		first, second := s.open(3), s.open(9)
		pass(2 * time.Second)
		first.requireLast(`"position":1,`)
		second.requireLast(`"position":2,`)
		s.change(func() { s.restore(0, 3, 5, 9) })
		pass(3 * time.Second)
		first.requireLast(`"position":1,`)
		second.requireLast(`"position":3,`)
		first.hangUp()
		second.hangUp()
	})
}
