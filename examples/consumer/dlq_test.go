package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// The database refuses the first events of three users until a person has dropped the trigger.
func TestPoisonedEvents_GoToTheDLQAndComeBack(t *testing.T) {
	s := newShopTest(t)
	s.refuses("'issued-3', 'issued-5', 'issued-8'")
	all := lives(10)
	s.publish(all...)

	began := time.Now()
	counts, log := s.drain("a", 20*time.Millisecond)
	require.Equal(t, map[string]int{"applied": 37, "failed": 3 * maxTries, "dlq": 3}, counts)
	require.Equal(t, 3, strings.Count(log, "event is in the DLQ stream"))
	require.Equal(t, 37, s.handled(), "the others do not wait, not even those of the same coupon and user")
	poisoned := s.redis.XRange(t.Context(), s.dlq, "-", "+").Val()
	require.Len(t, poisoned, 3)
	stream := s.redis.XRange(t.Context(), s.stream, "-", "+").Val()
	for i, user := range []coupon.UserID{3, 5, 8} {
		got, original := poisoned[i].Values, stream[user-1]
		failed, err := time.Parse(time.RFC3339Nano, got["time"].(string))
		require.NoError(t, err)
		require.WithinRange(t, failed, began, time.Now())
		require.Contains(t, got["error"], "an odd customer")
		delete(got, "time")
		delete(got, "error")
		require.Equal(t, map[string]any{"stream_id": original.ID, "source": "/coupons/42", "id": issued(user).ID,
			"tries": "5",
			"event": original.Values["event"]}, got)
	}

	code, stdout, _ := s.call(s.args("dlq")...)
	require.Zero(t, code)
	require.Equal(t, 3, strings.Count(stdout, "\n"))
	require.Contains(t, stdout, poisoned[1].ID+" source=/coupons/42 id=issued-5 stream_id="+stream[4].ID+" tries=5 ")

	code, stdout, stderr := s.call(s.args("replay")...)
	require.Equal(t, 1, code, "nothing was mended")
	require.Equal(t, 3, strings.Count(stdout, "failed again"))
	require.Contains(t, stderr, "3 events failed again and stay in DLQ stream "+s.dlq)
	require.EqualValues(t, 3, s.redis.XLen(t.Context(), s.dlq).Val())

	away := s.args("replay", "--mysql", "shop@tcp(127.0.0.1:1)/shop")
	code, stdout, stderr = s.call(away...)
	require.Equal(t, 1, code, "the shop's database is away")
	require.Empty(t, stdout)
	require.Contains(t, stderr, "replay "+poisoned[0].ID)
	require.EqualValues(t, 3, s.redis.XLen(t.Context(), s.dlq).Val())

	s.exec("DROP TRIGGER refuses")
	code, stdout, stderr = s.call(s.args("replay", "--id", poisoned[1].ID)...)
	require.Zero(t, code, stderr)
	require.Equal(t, poisoned[1].ID+" superseded\n", stdout, "the coupon was used and given back in the meantime")
	require.EqualValues(t, 2, s.redis.XLen(t.Context(), s.dlq).Val())
	code, _, stderr = s.call(s.args("replay", "--id", poisoned[1].ID)...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "no entry "+poisoned[1].ID)

	// A crash between the last try and its acknowledgement adds an event a second time.
	again := &redis.XAddArgs{Stream: s.dlq, Values: []any{"event", poisoned[0].Values["event"]}}
	require.NoError(t, s.redis.XAdd(t.Context(), again).Err())
	code, stdout, stderr = s.call(s.args("replay")...)
	require.Zero(t, code, stderr)
	require.Equal(t, 2, strings.Count(stdout, " superseded\n"))
	require.Equal(t, 1, strings.Count(stdout, " duplicate\n"))
	s.requireOnce(all)
}

// Nobody replays by hand: once the cause is mended, the events leave the DLQ stream.
func TestDLQ_IsReplayedAtIntervals(t *testing.T) {
	s := newShopTest(t)
	s.refuses("'issued-3'")
	all := lives(4)
	s.publish(all...)
	consumer, stdout := s.start(s.runArgs("a", claimSoon, "--replay-every", "20ms")...)
	testenv.Eventually(t, "the event fails again", func() bool {
		return consumer.Warned("events of the DLQ stream failed again")
	})
	require.EqualValues(t, 1, s.redis.XLen(t.Context(), s.dlq).Val())
	s.exec("DROP TRIGGER refuses")
	testenv.Eventually(t, "the DLQ stream is empty", func() bool { return s.redis.XLen(t.Context(), s.dlq).Val() == 0 })
	require.NoError(t, consumer.Stop())
	var counts map[string]int
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &counts))
	require.Equal(t, 1, counts["replayed"])
	s.requireOnce(all)
}

// Without later events, a replayed event shows.
func TestReplay_AppliesTheState(t *testing.T) {
	s := newShopTest(t)
	s.publishRaw(`{"specversion":"1.0","type":"kr.jajeong.coupon.issued.v1","source":"/coupons/42","id":"issued-7",
"subject":"7","sequence":0,"time":"seven"}`)
	counts, _ := s.drain("a", claimNever)
	require.Equal(t, map[string]int{"failed": 1, "dlq": 1}, counts)
	entry := s.redis.XRange(t.Context(), s.dlq, "-", "+").Val()[0]

	// In place of a mended program, the event is mended.
	mended := strings.Replace(entry.Values["event"].(string), `"seven"`, `"2026-11-21T00:00:07Z"`, 1)
	require.NoError(t, s.redis.Del(t.Context(), s.dlq).Err())
	require.NoError(t, s.redis.XAdd(t.Context(),
		&redis.XAddArgs{Stream: s.dlq, Values: []string{"event", mended}}).Err())
	code, stdout, stderr := s.call(s.args("replay")...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, " applied\n")
	require.Equal(t, 1,
		s.number("SELECT COUNT(*) FROM shop_coupon WHERE subject = '7' AND state = 'AVAILABLE' AND sequence = 0"))
}

// What can never succeed goes to the DLQ stream at the first try, whole. Types of v1 that are not known are no mistake.
func TestMalformedEvents_GoToTheDLQAtOnce(t *testing.T) {
	s := newShopTest(t)
	const event = `{"specversion":"1.0","type":"kr.jajeong.coupon.%.v1","source":"/coupons/42","id":"x","subject":"7",
"sequence":0,"time":"2026-11-21T00:00:00Z","data":{}}`
	malformed := []string{
		`{"specversion":`,
		`[]`,
		strings.Replace(event, "%.v1", "issued.v2", 1),
		strings.Replace(event, `"1.0"`, `"2.0"`, 1),
		strings.Replace(strings.Replace(event, "%", "used", 1), `"id":"x",`, "", 1),
		strings.Replace(strings.Replace(event, "%", "used", 1), `"time":"2026-11-21T00:00:00Z",`, "", 1),
	}
	s.publishRaw(malformed...)
	s.publishRaw(strings.Replace(event, "%", "painted", 1))
	require.NoError(t, s.redis.XAdd(t.Context(),
		&redis.XAddArgs{Stream: s.stream, Values: []string{"note", "not an event"}}).Err())
	s.publish(issued(1))

	counts, _ := s.drain("a", claimNever)
	bad := len(malformed) + 1
	require.Equal(t, map[string]int{"applied": 1, "ignored": 1, "failed": bad, "dlq": bad}, counts)
	var kept []string
	for _, entry := range s.redis.XRange(t.Context(), s.dlq, "-", "+").Val() {
		require.Equal(t, "1", entry.Values["tries"])
		require.Contains(t, entry.Values["error"], ErrMalformed.Error())
		kept = append(kept, entry.Values["event"].(string))
	}
	require.Equal(t, append(malformed, `{"note":"not an event"}`), kept)
	require.Equal(t, 1, s.handled())
}

func TestFullDLQ_StopsTheConsumer(t *testing.T) {
	s := newShopTest(t)
	_, err := s.redis.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for range maxDLQ {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: s.dlq, Values: []string{"event", "{}"}})
		}
		return nil
	})
	require.NoError(t, err)
	s.publishRaw("{}")
	s.publish(issued(1))
	consumer, _ := s.start(s.runArgs("a", claimSoon)...)
	testenv.Eventually(t, "the consumer waits", func() bool {
		return consumer.Warned("it is full with 1000 entries")
	})
	require.EqualValues(t, maxDLQ, s.redis.XLen(t.Context(), s.dlq).Val())
	require.NoError(t, s.redis.XTrimMaxLen(t.Context(), s.dlq, maxDLQ-1).Err())
	testenv.Eventually(t, "it goes on", func() bool { return s.handled() == 1 })
	require.NoError(t, consumer.Stop())
	require.EqualValues(t, maxDLQ, s.redis.XLen(t.Context(), s.dlq).Val())
	require.Zero(t, s.pending())
}

// The account of docs/redis-users.acl may do what every command needs.
func TestAccount_HasTheRights(t *testing.T) {
	t.Parallel()
	s := shopOn(t, testenv.PrivateRedis(t, testenv.RedisOptions{}), testenv.MySQLFor(t).DSN)
	file := testenv.Content(t, "../../docs/redis-users.acl")
	name, password := testenv.RedisUsersFor(t, s.redis, "", string(file)).As("jajeong_consumer")
	s.publish(lives(10)...)
	require.NoError(t, s.redis.XTrimMaxLen(t.Context(), s.stream, 39).Err())
	s.publishRaw("{}")
	for _, step := range []struct {
		args []string
		code int
		want string
	}{
		{s.runArgs("a", claimSoon, "--until-empty"), 0, `{"applied":39,"dlq":1,"failed":1}`},
		{s.args("dlq"), 0, "malformed"},
		{s.args("replay"), 1, "failed again"},
	} {
		cmd := exec.CommandContext(t.Context(), testenv.Build(t, "./examples/consumer"), step.args...)
		cmd.Env = append(os.Environ(), "SHOP_REDIS_USERNAME="+name, "SHOP_REDIS_PASSWORD="+password)
		output, err := cmd.CombinedOutput()
		require.Equal(t, step.code, cmd.ProcessState.ExitCode(), "%v: %s", err, output)
		require.Contains(t, string(output), step.want)
	}
}
