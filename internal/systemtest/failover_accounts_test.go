package systemtest

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

// repeatOrders repeats the calls of all orders, as a shop does after commits were lost. It returns how many orders had
// come further than MySQL knows.
func (f *failover) repeatOrders() (lost int) {
	f.t.Helper()
	steps := []coupon.OrderState{"", coupon.OrderReserved, coupon.OrderUsed, coupon.OrderRefunded}
	for _, o := range f.orders {
		var state coupon.OrderState
		err := f.DB.QueryRow("SELECT state FROM coupon_order WHERE order_id = ?", o.id).Scan(&state)
		if !errors.Is(err, sql.ErrNoRows) {
			require.NoError(f.t, err)
		}
		if slices.Index(steps, state) < slices.Index(steps, o.state) {
			lost++
		}
	}
	if f.lacks == 0 {
		require.Zero(f.t, lost, "the shop was told what MySQL does not know")
	}
	for _, o := range f.orders {
		require.NoError(f.t, f.place(testenv.Patient(f.t), o))
	}
	return lost
}

// awaitIssued waits until everybody has an outcome for whom there is a seat.
func (f *failover) awaitIssued() {
	f.t.Helper()
	id := f.line[1]
	testenv.Eventually(f.t, "all who can are issued at once", func() bool {
		return int(f.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?", id)) ==
			min(failoverSeats, len(placesOf(f.Deployment, id)))
	})
	testenv.Eventually(f.t, "all events are published and read", func() bool {
		return (&mall{Deployment: f.Deployment}).unpublished() == 0
	})
}

// checkLine demands that whoever was told a place has it, and that the seats are given in the order of places.
func (f *failover) checkLine(id coupon.CouponID) {
	f.t.Helper()
	winners, places, last := f.Issued(id), placesOf(f.Deployment, id), coupon.Arrival(0)
	require.Len(f.t, winners, min(failoverSeats, len(places)))
	for _, winner := range winners { // in the order of their seats
		require.Less(f.t, last, places[winner])
		last = places[winner]
	}
	for user, at := range f.told[id] {
		place, ok := places[user]
		require.True(f.t, ok, "user %d was told %d and is lost", user, at)
		require.LessOrEqual(f.t, place, at, "user %d", user)
		require.True(f.t, place > last || slices.Contains(winners, user), "user %d is passed over", user)
	}
}

// checkEvents compares what a consumer has read with MySQL.
func (f *failover) checkEvents() {
	f.t.Helper()
	left, err := f.sink.contents(f.t.Context())
	require.NoError(f.t, err)
	rows := (&mall{Deployment: f.Deployment}).rows()
	known, lost := map[string]bool{}, map[string]bool{}
	for _, e := range left.first {
		fact, err := parseFact([]byte(e.body))
		require.NoError(f.t, err)
		known[fact.name()] = true
		row, exists := rows[fact.name()]
		if fact.Sequence == 0 { // whoever was told a seat has it
			require.True(f.t, exists, e.body)
			require.Equal(f.t, fact.Data.Position, row.Data.Position, e.body)
			require.Equal(f.t, fact.Data.AppliedAt, row.Data.AppliedAt, e.body)
		}
		if !exists {
			lost[fact.name()] = true
		}
	}
	for name := range rows {
		require.Contains(f.t, known, name)
	}
	f.t.Logf("%d events, of which MySQL lacks %d", len(known), len(lost))
	require.Equal(f.t, lost, f.named())
	if f.lacks == 0 {
		left.require(f.t, rows)
	}
}

// named are the events that `settle events verify` names.
func (f *failover) named() map[string]bool {
	f.t.Helper()
	var output bytes.Buffer
	cmd := exec.Command(testenv.Build(f.t, "./cmd/settle"), append(append([]string{"events", "verify",
		"--from=" + f.began.Format(time.RFC3339), "--output=json"}, f.sink.flags()...), f.Flags(f.Operator)...)...)
	cmd.Env, cmd.Stdout = f.Environment(), &output
	_ = cmd.Run() // it ends with 3 if it names any
	var found struct{ Missing []struct{ Source, ID string } }
	require.NoError(f.t, json.Unmarshal(output.Bytes(), &found))
	named := map[string]bool{}
	for _, e := range found.Missing {
		named[e.Source+" "+e.ID] = true
	}
	return named
}

// verify runs `settle verify`. A warning is allowed about what nobody was told.
func (f *failover) verify() {
	f.t.Helper()
	code, output := f.RunToEnd(func() *exec.Cmd {
		cmd := exec.CommandContext(testenv.Patient(f.t), testenv.Build(f.t, "./cmd/settle"),
			append(f.Flags(f.Operator), "verify")...)
		cmd.Env = f.Environment()
		return cmd
	})
	require.Zero(f.t, code, output)
	for _, code := range f.Findings() {
		require.Equal(f.t, verify.PromiseUnknown, code)
	}
}
