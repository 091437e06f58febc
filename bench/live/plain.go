package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/coupon"
)

// The plain server is what a team writes first: a goroutine for each stream, and Redis Pub/Sub. The settlement
// publishes each user's outcome after the commit. It sends the heartbeats of the product, and nothing else of it: it
// knows no state of an application, so that a reconnect may miss the outcome for good; it does not read MySQL, has no
// deadline for a write, no limit of streams, and does not end them.
const (
	onChannels      = "live-channels"      // one connection to Redis, with a channel for each user
	onSubscriptions = "live-subscriptions" // go-redis's PubSub for each user, which is a connection to Redis
)

const (
	// mostClients is below maxclients of Redis, which is 10,000 by default.
	mostClients = 9_900
	heartbeat   = 15 * time.Second
	// finalID tells the plain server that the browser comes back after the outcome.
	finalID = "final"
)

// Roles are the plain servers.
var Roles = stage.Roles{onChannels: serve(shareOne), onSubscriptions: serve(oneEach)}

func serve(open func(*redis.Client) subscribing) stage.Work {
	return stage.Server(func(_ context.Context, w stage.Wiring) (http.Handler, error) {
		subscribe := open(redis.NewClient(&redis.Options{Addr: w.Redis}))
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/live/coupons/{id}/me", func(w http.ResponseWriter, r *http.Request) {
			plainStream(w, r, subscribe)
		})
		return mux, nil
	})
}

// subscribing returns the messages of a channel until end is called.
type subscribing func(ctx context.Context, channel string) (messages <-chan *redis.Message, end func(), err error)

func channelOf(id, user string) string { return "live:" + id + ":" + user }

func plainStream(w http.ResponseWriter, r *http.Request, subscribe subscribing) {
	if r.Header.Get("Last-Event-ID") == finalID {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	messages, end, err := subscribe(r.Context(), channelOf(r.PathValue("id"), r.Header.Get("X-User-ID")))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer end()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flusher := http.NewResponseController(w)
	fmt.Fprintf(w, "retry: %d\ndata: {\"status\":%q}\n\n", someRetry().Milliseconds(), coupon.StandingPending)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for flusher.Flush() == nil {
		select {
		case m := <-messages:
			fmt.Fprintf(w, "id: %s\ndata: %s\n\n", finalID, m.Payload)
			return
		case <-beat.C:
			fmt.Fprint(w, ":\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

func oneEach(rdb *redis.Client) subscribing {
	return func(ctx context.Context, channel string) (<-chan *redis.Message, func(), error) {
		ps := rdb.Subscribe(ctx, channel)
		if _, err := ps.Receive(ctx); err != nil {
			return nil, nil, errors.Join(err, ps.Close())
		}
		return ps.Channel(redis.WithChannelSize(1)), func() { _ = ps.Close() }, nil
	}
}

func shareOne(rdb *redis.Client) subscribing {
	ps := rdb.Subscribe(context.Background())
	var mu sync.Mutex
	users := map[string]chan *redis.Message{}
	var start sync.Once
	deliver := func() {
		for m := range ps.Channel(redis.WithChannelSize(1000)) {
			mu.Lock()
			if to := users[m.Channel]; to != nil {
				select {
				case to <- m:
				default: // one message is all there is to tell
				}
			}
			mu.Unlock()
		}
	}
	return func(ctx context.Context, channel string) (<-chan *redis.Message, func(), error) {
		own := make(chan *redis.Message, 1)
		mu.Lock()
		users[channel] = own
		mu.Unlock()
		if err := ps.Subscribe(ctx, channel); err != nil {
			return nil, nil, err
		}
		start.Do(func() { go deliver() })
		return own, func() {
			mu.Lock()
			delete(users, channel)
			mu.Unlock()
			_ = ps.Unsubscribe(context.Background(), channel)
		}, nil
	}
}

const (
	publishAtOnce = 500 // commands of one pipeline
	moreCommits   = 1000
)

// publisher publishes the outcomes of a settlement to the channels of their users, in place of the job. It reads the
// users after each commit, and runs on the cores of the bench. end may be called again.
func (m *measurement) publisher(ctx context.Context, id int) (at func(commit), end func() error) {
	commits, done := make(chan commit, moreCommits), make(chan error, 1)
	go func() {
		var last commit
		var err error
		for c := range commits {
			if err == nil {
				err = m.publish(ctx, id, last, c)
			}
			last = c
		}
		done <- err
	}()
	return func(c commit) { commits <- c }, sync.OnceValue(func() error { close(commits); return <-done })
}

func (m *measurement) publish(ctx context.Context, id int, last, now commit) error {
	winners, err := stage.Column[uint64](ctx, m.DB,
		"SELECT user_id FROM user_coupon WHERE coupon_id = ? AND position > ? ORDER BY position", id, last.issued)
	if err != nil {
		return err
	}
	others, err := stage.Column[uint64](ctx, m.DB, `SELECT user_id FROM application_outcome WHERE coupon_id = ?
		ORDER BY applied_at LIMIT ? OFFSET ?`, id, now.concluded-last.concluded, last.concluded)
	if err != nil {
		return err
	}
	for _, decided := range []struct {
		outcome coupon.Standing
		users   []uint64
	}{{coupon.StandingIssued, winners}, {coupon.StandingNotSelected, others}} {
		message := fmt.Sprintf(`{"status":%q,"couponId":%d}`, decided.outcome, id)
		for some := range slices.Chunk(decided.users, publishAtOnce) {
			_, err := m.RDB.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for _, user := range some {
					pipe.Publish(ctx, channelOf(strconv.Itoa(id), strconv.FormatUint(user, 10)), message)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
