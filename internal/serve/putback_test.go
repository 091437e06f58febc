package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/testenv"
)

// MySQL is put back to what it had at any instant around a settlement, as when a replica without the last commits is
// promoted. Redis is what it was at any instant, too: a run that is killed before one of its calls of Redis leaves it
// so. Nobody helps. Then the same users have the same seats as if nothing had happened, everybody else has the same
// outcome, and a consumer that drops the events that it knows misses no change.
func TestPutBack_IssuesTheSameAgain(t *testing.T) {
	t.Parallel()
	for name, choose := range map[string]func(h *history) []fallback{
		"MySQL falls back": func(h *history) (all []fallback) {
			for i := range h.tables {
				all = append(all, fallback{tables: i, line: len(h.lines) - 1, alone: i > h.journalled,
					restarts: i <= h.journalled})
			}
			return all
		},
		"the run is killed, too": func(h *history) (all []fallback) {
			for i := h.late; i < len(h.lines); i++ {
				all = append(all, fallback{tables: h.journalled, line: i, alone: i%2 == 0})
			}
			return all
		},
		"Redis falls back, too": func(h *history) (all []fallback) {
			for i := range h.tables {
				for j := range h.lines {
					all = append(all, fallback{tables: i, line: j, failover: true, alone: i == len(h.tables)-1})
				}
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, chance := newHistory(t), testenv.Random(t)
			all := choose(h)
			chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for i, f := range all[:min(len(all), testenv.Rounds(10, len(all)))] {
				if i%2 == 0 {
					f.killed = 1 + chance.IntN(restoreCalls)
				}
				t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) { h.after(t, f) })
			}
		})
	}
}

// restoreCalls is about how many calls of Redis a restore makes.
const restoreCalls = 25

// fallback is what MySQL and Redis are put back to.
type fallback struct {
	tables, line int
	failover     bool // Redis is another server; else a killed run has left it so
	killed       int  // a restore is killed at this call of Redis; 0: none is
	restarts     bool // the process that notices that MySQL has fallen back ends after its next copy
	alone        bool // all pods are dead, and there is no `settle serve`: the next run restores
}

// after puts the servers back, and demands the right ending.
func (h *history) after(t *testing.T, f fallback) {
	h = h.forTest(t)
	h.PutTablesBack(h.tables[f.tables])
	h.PutLineBack(h.id, h.lines[f.line])
	if f.failover {
		h.FailOver(h.id)
	}
	h.PodsDie()
	if !f.alone { // what another pod remembers
		h.Memory().Answered(h.id, candidates.Reply{Epoch: h.epoch, Restores: h.Look(h.id).Restores,
			Answers: h.told})
	}
	known, changes := h.heard.known(), h.changes()
	_, err := h.CouponAdmin().Grant(t.Context(), h.other, couponadmin.Grantee{User: 20, Zone: time.UTC})
	require.NoError(t, err) // and so each winner gets the row of another one
	if f.killed > 0 {
		h.restoreKilled(f.killed)
	}
	if f.restarts {
		h.copyAndRestart()
	}
	if !f.alone {
		h.serve()
	}
	h.SettleNow(h.id)
	require.Equal(t, h.want, h.ending())
	h.Verify(h.id)

	h.reserve("new")
	h.publish()
	now := h.heard.known()
	for id := range h.changes() {
		require.True(t, changes[id] || now[id] && !known[id], "a consumer misses %s", id)
	}
	for _, user := range h.ran() {
		require.Contains(t, now, fmt.Sprintf("/coupons/%d issued-%d", h.id, user))
	}
}

// errKilled is an error after which nothing is tried again, as after the end of a process.
var errKilled = &coupon.Error{Class: coupon.Setup, Err: errors.New("the process is killed")}

// restoreKilled begins a restore, which is killed at a call of Redis.
func (h *history) restoreKilled(at int) {
	h.T.Helper()
	restorer, calls := h.Restorer(), 0
	restorer.Line = h.storeBefore(func(context.Context) error {
		if calls++; calls >= at {
			return errKilled
		}
		return nil
	})
	if _, err := restorer.Restore(h.T.Context(), journal.Order{Coupon: h.id}); err != nil {
		require.ErrorIs(h.T, err, errKilled)
	}
}

// copyAndRestart ends the process of the journal before it has read the whole line.
func (h *history) copyAndRestart() {
	h.T.Helper()
	copies := *h.task.journal
	copies.Rows = 1
	copied, err := copies.Copy(h.T.Context(), h.id, &h.task.open[h.id].progress)
	require.NoError(h.T, err)
	require.True(h.T, copied.More)
	h.task = newJournalTask(h.Deployment)
}

// serve is the work of a pod and of `settle serve`, until everybody has a place and the journal has all who stand.
func (h *history) serve() {
	h.T.Helper()
	pod := h.Catalog()
	h.task.await("everybody stands, and is in the journal", func() bool {
		require.NoError(h.T, h.RefreshOf(pod))
		look := h.Look(h.id)
		return look.Restored && look.Returned == 0 && h.haveAllPlaces() && h.journalHasLine()
	})
}

const (
	outcomesSQL = `
SELECT CONCAT(user_id, ' ', TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at)) FROM (
    SELECT user_id, applied_at FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL
    UNION ALL SELECT user_id, applied_at FROM application_outcome WHERE coupon_id = ?) o ORDER BY 1`
	journalSQL = "SELECT CONCAT(user_id, ' ', arrival) FROM line_journal WHERE coupon_id = ?"
)

// standing are those in queue and DLQ: "user arrival".
func (h *history) standing() (all []string) {
	h.T.Helper()
	for _, some := range []map[string]coupon.Arrival{h.Arrivals(h.id), h.UnderReview(h.id)} {
		for member, arrival := range some {
			all = append(all, fmt.Sprint(member, " ", arrival))
		}
	}
	return all
}

func (h *history) haveAllPlaces() bool {
	places := append(h.standing(), jajeongtest.Column[string](h.Deployment, outcomesSQL, h.id, h.id)...)
	return !slices.ContainsFunc(h.told, func(a coupon.Answer) bool {
		return !slices.Contains(places, fmt.Sprint(a.User, " ", a.Arrival))
	})
}

func (h *history) journalHasLine() bool {
	rows := jajeongtest.Column[string](h.Deployment, journalSQL, h.id)
	return !slices.ContainsFunc(h.standing(), func(row string) bool { return !slices.Contains(rows, row) })
}

const changesSQL = `
SELECT CONCAT('/coupons/', u.coupon_id, ' ', u.user_id, '-', l.seq, '-',
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.at))
FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id`

// changes are the events of the rows of coupon_log.
func (h *history) changes() map[string]bool {
	h.T.Helper()
	return set(jajeongtest.Column[string](h.Deployment, changesSQL))
}

func set(all []string) map[string]bool {
	found := map[string]bool{}
	for _, one := range all {
		found[one] = true
	}
	return found
}

// ending is what became of all applications.
type ending struct {
	Issued, NotSelected, AlreadyIssued, Rejected []coupon.UserID
	Seats                                        []uint64
	Waiting                                      []string
	Review                                       map[string]coupon.Arrival
	Outcomes                                     []string // "user arrival" of winners, and of those with other outcomes
}

func (h *history) ending() ending {
	h.T.Helper()
	return ending{Issued: h.Issued(h.id), NotSelected: h.Outcome(h.id, "NOT_SELECTED"),
		AlreadyIssued: h.Outcome(h.id, "ALREADY_ISSUED"), Rejected: h.Outcome(h.id, "REJECTED"),
		Seats: h.Seats(h.id), Waiting: h.Waiting(h.id), Review: h.UnderReview(h.id),
		Outcomes: jajeongtest.Column[string](h.Deployment, outcomesSQL, h.id, h.id)}
}
