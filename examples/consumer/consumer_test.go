package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Consumers are killed at random moments. Each killed one leaves up to a page of events behind. Every other one never
// comes back, so that only a claim saves its events.
func TestKilledConsumers_EveryEffectOnce(t *testing.T) {
	s := newShopTest(t)
	random := testenv.Random(t)
	all := lives(testenv.Rounds(100, 2_500))
	repeats := make([]*events.Event, len(all)/6)
	for i := range repeats {
		repeats[i] = all[random.IntN(len(all))]
	}
	first := slices.Clone(all)
	for i := 0; i < len(first); i += 10 { // immediate repeats, as after a lost reply
		first = slices.Insert(first, i+1, first[i])
	}
	s.publish(append(first, repeats...)...)

	kills := testenv.Rounds(4, 80)
	stays, _ := s.start(s.runArgs("stays", claimSoon)...)
	for kill := range kills {
		name := "comes-back"
		if kill%2 == 1 {
			name = fmt.Sprint("never-comes-back-", kill)
		}
		victim, _ := s.start(s.runArgs(name, claimSoon)...)
		until := max(0, s.handled()) + random.IntN(2*len(all)/(kills+1))
		testenv.Eventually(t, "some events are handled", func() bool { return s.handled() >= min(until, len(all)) })
		s.kill(victim)
	}
	s.kill(stays)
	counts, _ := s.drain("last", claimSoon)
	s.requireOnce(all)
	require.Zero(t, counts["failed"])
	t.Logf("%d events, %d entries, %d kills; the last consumer: %v", len(all), len(first)+len(repeats), kills+1, counts)
}

// A killed process left 250 events behind. No claim happens within the test, so they come back by the consumer's name
// alone.
func TestKilledConsumer_ReadsItsOwnFirst(t *testing.T) {
	s := newShopTest(t)
	all := lives(100)
	s.publish(all...)
	require.NoError(t, s.redis.XGroupCreate(t.Context(), s.stream, "shop", "0").Err())
	left, err := s.redis.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "shop", Consumer: "a",
		Streams: []string{s.stream, ">"}, Count: 250}).Result()
	require.NoError(t, err)
	require.Len(t, left[0].Messages, 250)
	counts, _ := s.drain("a", claimNever)
	require.Equal(t, map[string]int{"applied": len(all)}, counts, "in order: none is superseded")
	s.requireOnce(all)
}

func TestSIGTERM_FinishesTheEventInHand(t *testing.T) {
	s := newShopTest(t)
	const n = 50
	s.publish(lives(n)[:n]...)
	shop, err := OpenShop(s.dsn)
	require.NoError(t, err)
	defer shop.Close()
	require.NoError(t, shop.Prepare(t.Context()))

	held, err := s.db.BeginTx(t.Context(), nil) // the consumer waits for this row
	require.NoError(t, err)
	_, err = held.ExecContext(t.Context(), insertEvent, "/coupons/42", "issued-1")
	require.NoError(t, err)
	consumer, stdout := s.start(s.runArgs("a", claimNever)...)
	testenv.Eventually(t, "the first event is in hand", func() bool {
		return testenv.Sessions(t, s.db, func(session testenv.Session) bool {
			return session.Command == "Query" && strings.HasPrefix(session.Statement, "INSERT INTO shop_event")
		}) > 0
	})
	stopped := make(chan error)
	go func() { stopped <- consumer.Stop() }()
	require.NoError(t, held.Rollback())
	require.NoError(t, <-stopped)

	var counts map[string]int
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &counts))
	require.Positive(t, counts["applied"]+counts["failed"],
		"failed: the row was held for longer than an event may take")
	require.Equal(t, counts["applied"], s.handled())
	require.EqualValues(t, n-counts["applied"], s.pending())
	s.drain("a", claimNever)
	require.Equal(t, n, s.handled())
}

func TestKilledServers_NothingIsLostAndNoTryCounts(t *testing.T) {
	t.Parallel()
	r := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	m := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	admin, err := sql.Open("mysql", m.DSN(""))
	_, err = testenv.Opened(t, admin, err).ExecContext(t.Context(), "CREATE DATABASE shop")
	require.NoError(t, err)
	s := shopOn(t, r, m.DSN("shop"))
	all := lives(testenv.Rounds(200, 1_000))
	s.publish(all...)

	consumer, _ := s.start(s.runArgs("a", claimSoon)...)
	for round, server := range []interface {
		Kill() error
		Restart(ctx context.Context) error
	}{m, r, m, r} {
		testenv.Eventually(t, "some events are handled", func() bool { return s.handled() >= len(all)*(round+1)/6 })
		require.NoError(t, server.Kill())
		testenv.Eventually(t, "the consumer waits",
			func() bool { return consumer.Warned("trying again") })
		require.NoError(t, server.Restart(t.Context()))
	}
	testenv.Eventually(t, "every event is handled", func() bool { return s.handled() == len(all) })
	require.NoError(t, consumer.Stop())
	counts, _ := s.drain("a", claimSoon)
	require.Zero(t, counts["failed"])
	s.requireOnce(all)
}

func TestTrimmedEvents_AreReported(t *testing.T) {
	s := newShopTest(t)
	all := lives(10)
	s.publish(all...)
	require.NoError(t, s.redis.XGroupCreate(t.Context(), s.stream, "shop", "0").Err())
	counts, _ := s.drain("a", claimSoon)
	require.Equal(t, 40, counts["applied"])
	require.Zero(t, counts["lost"])

	s.publish(all...)
	read, err := s.redis.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "shop", Consumer: "dead", Count: 3,
		Streams: []string{s.stream, ">"}}).Result()
	require.NoError(t, err)
	require.Len(t, read[0].Messages, 3)
	// 3 that are pending, 7 that nobody has read.
	require.NoError(t, s.redis.XTrimMaxLen(t.Context(), s.stream, 30).Err())
	counts, log := s.drain("a", claimSoon)
	require.Equal(t, map[string]int{"duplicate": 30, "lost": 10}, counts)
	require.Contains(t, log, `"ERROR","msg":"events are lost; ask for a replay: settle events replay","events":7,`)
	require.Contains(t, log, `"events":3,`)

	counts, log = s.drain("a", claimSoon)
	require.Empty(t, counts, "reported once")
	require.NotContains(t, log, "ERROR")
}

// A group that begins at a stream which was trimmed before has lost nothing.
func TestTrimmedEvents_BeforeTheGroupAreNoLoss(t *testing.T) {
	s := newShopTest(t)
	s.publish(lives(10)...)
	require.NoError(t, s.redis.XTrimMaxLen(t.Context(), s.stream, 15).Err())
	counts, log := s.drain("a", claimSoon)
	require.Equal(t, map[string]int{"applied": 15}, counts)
	require.NotContains(t, log, "ERROR")
}

func TestLostGroup_IsReported(t *testing.T) {
	t.Parallel()
	r := testenv.PrivateRedis(t, testenv.RedisOptions{}) // a restart loses everything
	s := shopOn(t, r, testenv.MySQLFor(t).DSN)
	s.publish(issued(1))
	consumer, _ := s.start(s.runArgs("a", claimSoon)...)
	testenv.Eventually(t, "the event", func() bool { return s.handled() == 1 })
	require.NoError(t, r.Kill())
	require.NoError(t, r.Restart(t.Context()))
	testenv.Eventually(t, "the report", func() bool {
		return consumer.Warned("the group was gone")
	})
	s.publish(issued(1), issued(2))
	testenv.Eventually(t, "the next event", func() bool { return s.handled() == 2 })
	require.NoError(t, consumer.Stop())
}
