package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const serveVerb = "serve"

// wiring has the addresses that a server reads from stdin.
type wiring struct{ Redis, DSN string }

// handlers are the contenders except for the API.
var handlers = map[string]func(wiring) (http.Handler, error){
	"nothing":   func(wiring) (http.Handler, error) { return http.HandlerFunc(nothing), nil },
	"plain":     plain,
	"pipeliner": pipeliner,
	"row-lock":  rowLock,
}

// gcPercent is that of apply-api, so that garbage collection makes no difference.
const gcPercent = 400

// serve answers until stdin ends. It ends with the bench at the latest.
func serve(args []string, stdin io.Reader, stderr io.Writer) error {
	debug.SetGCPercent(gcPercent)
	if len(args) != 1 || handlers[args[0]] == nil {
		return fmt.Errorf("%s: unknown contender %q", serveVerb, args)
	}
	var w wiring
	if err := json.NewDecoder(stdin).Decode(&w); err != nil {
		return fmt.Errorf("read wiring: %w", err)
	}
	handler, err := handlers[args[0]](w)
	if err != nil {
		return fmt.Errorf("%s %s: %w", serveVerb, args[0], err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(0)
	}()
	if err := json.NewEncoder(stderr).Encode(map[string]string{"msg": "listening", "apply": listener.Addr().String()}); err != nil {
		return err
	}
	return http.Serve(listener, handler)
}

func nothing(http.ResponseWriter, *http.Request) {}

// application is an answer like that of the API.
type application struct {
	Status    string `json:"status"`
	CouponID  uint64 `json:"couponId"`
	UserID    uint64 `json:"userId"`
	Position  int64  `json:"position"`
	Seats     int64  `json:"seats"`
	AppliedAt string `json:"appliedAt"`
	SettlesAt string `json:"settlesAt"`
}

const microseconds = "2006-01-02T15:04:05.000000Z07:00"

func (a *application) at(applied time.Time) {
	a.AppliedAt = applied.Format(microseconds)
	a.SettlesAt = applied.Truncate(24 * time.Hour).Add(24 * time.Hour).Format(microseconds)
}

// asking reads coupon and user of a request, and writes the answer.
func asking(apply func(ctx context.Context, a *application) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/coupons/{id}/applications", func(w http.ResponseWriter, r *http.Request) {
		coupon, notCoupon := strconv.ParseUint(r.PathValue("id"), 10, 64)
		user, notUser := strconv.ParseUint(r.Header.Get("X-User-ID"), 10, 64)
		if err := errors.Join(notCoupon, notUser); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a := application{CouponID: coupon, UserID: user, Seats: seats}
		if err := apply(r.Context(), &a); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		status := http.StatusConflict
		switch a.Status {
		case "ACCEPTED":
			status = http.StatusAccepted
		case "DUPLICATE":
			status = http.StatusOK
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(a)
	})
	return mux
}

//go:embed one.lua
var oneLua string

var one = redis.NewScript(oneLua)

const ttlSeconds = 7 * 24 * 60 * 60

// queueKey and couponKeys are the keys of the product.
const queueKey = "candidates:coupon:1"

func beside(name string) string { return name + ":{" + queueKey + "}" }

var couponKeys = []string{queueKey, beside("state"), beside("issued"), beside("rejected"), beside("dlq")}

// plain calls Redis once per request, with the default client.
func plain(w wiring) (http.Handler, error) {
	rdb, err := openCoupon(w)
	return asking(askingRedis(rdb)), err
}

// pipeliner lets the client send concurrent calls in one pipeline.
func pipeliner(w wiring) (http.Handler, error) {
	rdb, err := openCoupon(w)
	if err != nil {
		return nil, err
	}
	pipe, err := rdb.AutoPipeline()
	return asking(askingRedis(pipe)), err
}

// openCoupon publishes the window of the coupon and loads the script.
func openCoupon(w wiring) (*redis.Client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: w.Redis})
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	now := time.Now()
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, beside("state"), "opens", now.Add(-time.Hour).UnixMicro(), "closes", now.Add(24*time.Hour).UnixMicro(),
			"status", "OPEN", "sold", 0, "version", 1)
		one.Load(ctx, p)
		return nil
	})
	return rdb, err
}

func askingRedis(rdb redis.Scripter) func(ctx context.Context, a *application) error {
	return func(ctx context.Context, a *application) error {
		reply, err := one.Run(ctx, rdb, couponKeys, a.UserID, ttlSeconds).Slice()
		if err != nil {
			return err
		}
		code, _ := reply[0].(string)
		arrival, _ := reply[1].(int64)
		a.Status = code
		a.Position, _ = reply[2].(int64)
		a.at(time.UnixMicro(arrival).UTC())
		return nil
	}
}
