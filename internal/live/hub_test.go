package live

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// However many streams wait, Redis gets one question a tick, and each user is looked up once.
func TestWaitingCostsNothingPerUser(t *testing.T) {
	inBubble(t, 5_000, func(s *site) {
		const users = 750
		s.line(users)
		patrons := s.openAll(users)
		pass(time.Minute)
		require.Equal(t, users, s.count().asked, "users in questions")
		require.Zero(t, s.count().histories)
		require.LessOrEqual(t, s.count().looks, int(time.Minute/tick)+2*users/250)
		require.GreaterOrEqual(t, s.count().looks, int(time.Minute/(tick+spread)))
		for i, p := range patrons {
			require.Len(t, p.events(), 1)
			require.GreaterOrEqual(t, p.count(":\n\n"), 3, "heartbeats of user %d", i+1)
			p.hangUp()
		}
		pass(time.Second)
		require.Zero(t, s.opened())
	})
}

func (s *site) opened() int64 { return s.Hub.open.Load() }

// openAll opens the streams of users 1 to last.
func (s *site) openAll(last coupon.UserID) (patrons []*patron) {
	for user := coupon.UserID(1); user <= last; user++ {
		patrons = append(patrons, s.open(user))
	}
	return patrons
}

func requireOver(t *testing.T, patrons []*patron) {
	t.Helper()
	for _, p := range patrons {
		require.True(t, p.isOver())
	}
}

// The places of everybody follow from one number.
func TestPlacesMoveWithoutLookups(t *testing.T) {
	inBubble(t, 100, func(s *site) {
		s.line(50)
		last := s.open(50)
		pass(2 * time.Second)
		last.requireLast(`"position":50,`)
		s.change(func() { s.drop(20, coupon.StandingIssued) })
		pass(2 * time.Second)
		last.requireLast(`"position":30,`)
		s.change(func() { s.queue = append(s.queue, 60, 61) })
		late := s.open(61)
		pass(2 * time.Second)
		late.requireLast(`"position":32,`)
		last.requireLast(`"position":30,`)
		s.change(func() { s.drop(29, coupon.StandingIssued) })
		pass(2 * time.Second)
		late.requireLast(`"position":3,`)
		last.requireLast(`"position":1,`)
		require.Equal(t, 2, s.count().asked)
		late.hangUp()
		last.hangUp()
	})
}

// Winners are found in Redis, the others in MySQL, and their streams end.
func TestOutcomesAreLookedUpInBatches(t *testing.T) {
	inBubble(t, 5_000, func(s *site) {
		const users, winners = 750, 100
		s.line(users)
		patrons := s.openAll(users)
		pass(5 * time.Second)
		s.change(func() {
			s.drop(winners, coupon.StandingIssued)
			for _, user := range s.queue {
				s.outcomes[user] = coupon.StandingNotSelected
			}
			s.queue, s.sold = nil, true
		})
		began, looks := time.Now(), s.count().looks
		pass(2 * time.Second)
		for i, p := range patrons {
			want := "NOT_SELECTED"
			if i < winners {
				want = "ISSUED"
			}
			p.requireLast(`{"status":"` + want + `"`)
			require.True(t, p.isOver())
			require.Less(t, p.heardAt()[len(p.heardAt())-1].Sub(began), 2*time.Second)
		}
		require.Equal(t, users-winners, s.count().histories)
		require.LessOrEqual(t, s.count().looks-looks, users/250+6)
	})
}

func TestAtMostOneStateASecond(t *testing.T) {
	inBubble(t, 100, func(s *site) {
		s.line(100)
		last := s.open(100)
		for range 90 {
			pass(100 * time.Millisecond)
			s.change(func() { s.drop(1, coupon.StandingIssued) })
		}
		require.Greater(t, len(last.heardAt()), 5)
		at := last.heardAt()
		for i := 1; i < len(at); i++ {
			require.GreaterOrEqual(t, at[i].Sub(at[i-1]), tellEvery)
		}
		last.hangUp()
	})
}

// A settlement first moves those up who get nothing, and records their outcome a moment later.
func TestOutcomeDoesNotWaitBehindAPosition(t *testing.T) {
	inBubble(t, 100, func(s *site) {
		s.line(50)
		last := s.open(50)
		pass(2 * time.Second)
		s.change(func() { s.drop(10, coupon.StandingIssued) })
		pass(tick)
		s.change(func() {
			for _, user := range s.queue {
				s.outcomes[user] = coupon.StandingNotSelected
			}
			s.queue, s.sold = nil, true
		})
		pass(tick + 100*time.Millisecond)
		last.requireLast(`"NOT_SELECTED"`)
		require.Len(t, last.events(), 2)
	})
}

// A stream begins with a time to come back, and lives for 5 to 10 minutes.
func TestStreamsHaveALife(t *testing.T) {
	inBubble(t, 1000, func(s *site) {
		s.line(200)
		patrons := s.openAll(200)
		pass(minLife)
		for _, p := range patrons {
			require.False(t, p.isOver())
			require.Regexp(t, `^retry: [2-7]\d\d\d\n\n`, p.text())
		}
		pass((maxLife - minLife) / 2)
		over := 0
		for _, p := range patrons {
			if p.isOver() {
				over++
			}
		}
		require.InDelta(t, 100, over, 40, "they end by chance")
		pass((maxLife-minLife)/2 + 2*time.Second)
		requireOver(t, patrons)
		require.EqualValues(t, 200, testutil.ToFloat64(s.metrics.ended[aged]))
	})
}

// Who has no room gets the state, a time to come back, and an end. A user's third stream ends the oldest.
func TestLimits(t *testing.T) {
	inBubble(t, 3, func(s *site) {
		s.line(10)
		first := s.open(1)
		pass(time.Second)
		second := s.open(1)
		pass(time.Second)
		third := s.open(1)
		pass(2 * time.Second)
		require.True(t, first.isOver())
		require.Regexp(t, `\nretry: (\d{4}|1[0-4]\d{3})\n\n$`, first.text())
		require.False(t, second.isOver())
		other := s.open(2)
		pass(2 * time.Second)
		surplus := s.open(3)
		pass(2 * time.Second)
		require.True(t, surplus.isOver())
		require.Regexp(t, `^retry: ([5-9]\d{3}|1[0-4]\d{3})\n\n`, surplus.text())
		require.Equal(t, 1, surplus.count("data: "))
		surplus.requireLast(`"position":3,`)
		for _, p := range []*patron{second, third, other} {
			require.False(t, p.isOver())
			p.hangUp()
		}
	})
}

// A client that does not read gets the newest state when it reads again, or its stream ends. Others do not wait for it.
func TestSlowClientDelaysNobody(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.line(10)
		dead, other := s.open(9), s.open(10)
		pass(2 * time.Second)
		dead.freeze()
		for range 3 {
			s.change(func() { s.drop(1, coupon.StandingIssued) })
			pass(1500 * time.Millisecond)
		}
		other.requireLast(`"position":7,`)
		require.Len(t, other.events(), 4)
		pass(writeTimeout)
		require.True(t, dead.isOver())
		require.EqualValues(t, 1, testutil.ToFloat64(s.metrics.ended[slow]))
		other.hangUp()
	})
}

// What a client says after its request is dropped, until it is too much.
func TestWhatClientsSayIsDropped(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.line(1)
		p := s.open(1)
		pass(2 * time.Second)
		for range 5 {
			p.sends <- struct{}{}
		}
		pass(2 * time.Second)
		require.False(t, p.isOver())
		for !p.isOver() {
			select {
			case p.sends <- struct{}{}:
			case <-p.ended:
			}
		}
		require.EqualValues(t, 1, testutil.ToFloat64(s.metrics.ended[client]))
	})
}

// Redis forgets a waiting user. The stream keeps what it has told, says so, and goes on when the user is back.
func TestLostApplicationIsDelayedAndFoundAgain(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.line(10)
		p := s.open(5)
		pass(2 * time.Second)
		var queue []coupon.UserID
		s.change(func() { queue, s.queue = slices.Clone(s.queue), nil })
		pass(3 * time.Second)
		p.requireLast(`"status":"PENDING"`)
		p.requireLast(`"delayed":true`)
		s.change(func() { s.queue = queue })
		pass(5 * time.Second)
		p.requireLast(`"position":5,`)
		require.NotContains(t, p.events()[len(p.events())-1], "delayed")
		require.False(t, p.isOver())
		p.hangUp()
	})
}

// The end of the queue is lost: nobody's turn has come, but the server is another.
func TestAnotherServerMakesEverybodyDue(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.line(10)
		p := s.open(9)
		pass(2 * time.Second)
		s.change(func() { s.queue, s.since = s.queue[:5], s.since+1 })
		pass(4 * time.Second)
		p.requireLast(`"delayed":true`)
		s.change(func() { s.queue = append([]coupon.UserID{}, 1, 2, 3, 4, 5, 9) })
		pass(4 * time.Second)
		p.requireLast(`"position":6,`)
		p.hangUp()
	})
}

func TestRedisAway(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.line(10)
		p := s.open(5)
		pass(2 * time.Second)
		s.change(func() { s.redisAway = true })
		pass(3 * time.Second)
		p.requireLast(`"position":5,`)
		p.requireLast(`"delayed":true`)
		stranger := s.open(6)
		pass(3 * time.Second)
		stranger.requireLast(`{"status":"UNKNOWN","couponId":42,"userId":6,"delayed":true}`)
		s.change(func() { s.redisAway = false })
		pass(2 * time.Second)
		require.NotContains(t, p.events()[len(p.events())-1], "delayed")
		stranger.requireLast(`"position":6,`)
		require.Len(t, p.events(), 3)
		p.hangUp()
		stranger.hangUp()
	})
}

// MySQL alone knows who was not selected. While it is away, the others are told all the same.
func TestMySQLAway(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.line(2)
		winner, other := s.open(1), s.open(2)
		pass(2 * time.Second)
		s.change(func() {
			s.mysqlAway = true
			s.drop(1, coupon.StandingIssued)
			s.outcomes[2], s.queue, s.sold = coupon.StandingNotSelected, nil, true
		})
		pass(2 * time.Second)
		winner.requireLast(`"ISSUED"`)
		other.requireLast(`"status":"PENDING"`)
		other.requireLast(`"delayed":true`)
		s.change(func() { s.mysqlAway = false })
		pass(againAfter + 2*time.Second)
		other.requireLast(`"NOT_SELECTED"`)
		require.True(t, other.isOver())
		require.Greater(t, testutil.ToFloat64(s.metrics.looks[true]), float64(s.count().looks),
			"answers of MySQL count, too")
	})
}

// While MySQL is slow or hangs, nobody who waits for it is silent, and the others are told all the same.
func TestSlowMySQL(t *testing.T) {
	for name, takes := range map[string]time.Duration{"slow": lookTimeout - 100*time.Millisecond, "hangs": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 10_000, func(s *site) {
				const users = 5_000
				s.line(users)
				patrons := s.openAll(users)
				pass(5 * time.Second)
				s.change(func() {
					s.drop(1, coupon.StandingIssued)
					s.queue, s.sold, s.mysqlTakes = nil, true, takes
				})
				pass(30 * time.Second)
				patrons[0].requireLast(`"ISSUED"`)
				for i, p := range patrons[1:] {
					require.Positive(t, p.count(":\n\n"), "user %d", i+2)
				}
				const over = 10 * time.Second
				s.Drain(over)
				pass(over + slice)
				requireOver(t, patrons)
			})
		})
	}
}

func TestReviewAndRejection(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.line(2)
		p := s.open(1)
		pass(2 * time.Second)
		s.change(func() { s.drop(1, coupon.StandingUnderReview); s.dlqs++ })
		pass(2 * time.Second)
		p.requireLast(`"UNDER_REVIEW"`)
		asked := s.count().asked
		pass(time.Minute)
		require.Equal(t, asked, s.count().asked, "nothing changes in the DLQ")
		s.change(func() { s.state[1] = coupon.StandingRejected; s.dlqs++ })
		pass(2 * time.Second)
		p.requireLast(`"REJECTED"`)
		require.True(t, p.isOver())
	})
}

// Who has not applied is looked up again when somebody applies.
func TestNotApplied(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		p := s.open(7)
		pass(time.Minute)
		p.requireLast(`{"status":"NOT_APPLIED","couponId":42,"userId":7}`)
		require.Equal(t, 1, s.count().asked)
		s.change(func() { s.queue = append(s.queue, 3) })
		pass(3 * time.Second)
		require.Equal(t, 2, s.count().asked)
		s.change(func() { s.queue = append(s.queue, 7) })
		pass(3 * time.Second)
		p.requireLast(`"position":2,`)
		require.Len(t, p.events(), 2)
		p.hangUp()
	})
}

// An immediate coupon is issued between two looks: the queue is as empty as before.
func TestIssuedBetweenTwoLooks(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		p := s.open(7)
		pass(time.Minute)
		p.requireLast(`"NOT_APPLIED"`)
		s.change(func() { s.last, s.state[7] = 7, coupon.StandingIssued })
		pass(2 * time.Second)
		p.requireLast(`"ISSUED"`)
		require.True(t, p.isOver())
	})
}

// After a failover, a restore enters an application, behind which others wait.
func TestPutBackIsFound(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.queue = []coupon.UserID{3, 9}
		p := s.open(7)
		pass(time.Minute)
		p.requireLast(`"NOT_APPLIED"`)
		s.change(func() { s.queue = []coupon.UserID{3, 7, 9} })
		pass(3 * time.Second)
		p.requireLast(`"position":2,`)
		p.hangUp()
	})
}

// Streams end one after the other over the time given. Newcomers get the state and an end.
func TestDrain(t *testing.T) {
	inBubble(t, 1000, func(s *site) {
		s.line(200)
		patrons := s.openAll(200)
		pass(2 * time.Second)
		const over = 20 * time.Second
		s.Drain(over)
		late := s.open(3)
		pass(over / 2)
		require.True(t, late.isOver())
		late.requireLast(`"position":3,`)
		ended := 0
		for _, p := range patrons {
			if p.isOver() {
				ended++
			}
		}
		require.InDelta(t, 100, ended, 40)
		pass(over/2 + time.Second)
		requireOver(t, patrons)
		require.EqualValues(t, 200, testutil.ToFloat64(s.metrics.ended[drained]))
	})
}

// A client that comes back after the outcome stops asking; somebody else's outcome is none.
func TestLastEventID(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.state[7] = coupon.StandingIssued
		for id, want := range map[string]int{
			"7-ISSUED": http.StatusNoContent, "7-NOT_SELECTED": http.StatusNoContent,
			"7-REJECTED": http.StatusNoContent,
			"":           http.StatusOK, "8-ISSUED": http.StatusOK, "7-PENDING-5": http.StatusOK,
			"77-ISSUED":  http.StatusOK,
			"7-ISSUED-1": http.StatusOK,
		} {
			request, p := httptest.NewRequest(http.MethodGet, "/", nil), s.newPatron()
			request.Header.Set("Last-Event-ID", id)
			s.Serve(p, request, theCoupon, 7)
			pass(2 * time.Second)
			got := p.ResponseWriter.(*httptest.ResponseRecorder).Code
			if p.count("HTTP/1.1 200 OK\r\n") == 0 {
				require.Equal(t, want, got, id)
				require.Equal(t, "no-store", p.Header().Get("Cache-Control"),
					"another user may ask at the same address")
			} else {
				require.Equal(t, want, http.StatusOK, id)
			}
		}
	})
}

func TestHeadAndLater(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		recorder := httptest.NewRecorder()
		s.Serve(recorder, httptest.NewRequest(http.MethodHead, "/", nil), theCoupon, 7)
		require.Equal(t, "text/event-stream", recorder.Header().Get("Content-Type"))
		require.Equal(t, "no-store", recorder.Header().Get("Cache-Control"))
		require.Equal(t, "no", recorder.Header().Get("X-Accel-Buffering"))
		require.Empty(t, recorder.Body.String())
		recorder = httptest.NewRecorder()
		s.Later(recorder)
		require.Equal(t, http.StatusOK, recorder.Code)
		require.Regexp(t, `^retry: ([5-9]\d{3}|1[0-4]\d{3})\n\n$`, recorder.Body.String())
		require.Zero(t, s.count().looks)
	})
}

// A room whose round panics goes on with the next one.
func TestPanicEndsNoRoom(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.line(2)
		p := s.open(2)
		pass(2 * time.Second)
		s.change(func() { s.panics = true })
		pass(time.Second)
		s.change(func() { s.panics = false; s.drop(1, coupon.StandingIssued) })
		pass(2 * time.Second)
		p.requireLast(`"position":1,`)
		p.hangUp()
	})
}

func TestEventsAreWellFormed(t *testing.T) {
	inBubble(t, 10, func(s *site) {
		s.line(3)
		p := s.open(3)
		pass(2 * time.Second)
		blocks := strings.Split(strings.TrimSuffix(p.text(), "\n\n"), "\n\n")
		require.Len(t, blocks, 2)
		require.Regexp(t, `^retry: \d+$`, blocks[0])
		require.Regexp(t, `^id: 3-PENDING-3\ndata: \{.*\}$`, blocks[1])
		p.hangUp()
	})
}
