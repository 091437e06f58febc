package apply

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/bench/stage"
)

const role = "apply-"

// Roles are the contenders that are no apply-api.
var Roles = stage.Roles{
	role + yardstick: stage.Server(func(context.Context, stage.Wiring) (http.Handler, error) {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil
	}),
	role + plainest:    stage.Server(plain),
	role + "pipeliner": stage.Server(pipeliner),
	role + "row-lock":  stage.Server(rowLock),
}

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

func (a *application) at(applied time.Time) {
	const microseconds = "2006-01-02T15:04:05.000000Z07:00"
	a.AppliedAt = applied.Format(microseconds)
	a.SettlesAt = applied.Truncate(24 * time.Hour).Add(24 * time.Hour).Format(microseconds)
}

var statuses = map[string]int{"ACCEPTED": http.StatusAccepted, "DUPLICATE": http.StatusOK}

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
		a := application{CouponID: coupon, UserID: user, Seats: stage.Never}
		if err := apply(r.Context(), &a); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		status, known := statuses[a.Status]
		if !known {
			status = http.StatusConflict
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

var couponKeys = func() (keys []string) {
	queue := stage.QueueKey(couponID)
	for _, name := range []string{"issued", "rejected", "dlq"} {
		keys = append(keys, name+":{"+queue+"}")
	}
	return append([]string{queue, stage.StateKey(couponID)}, keys...)
}()

// plain calls Redis once per request, with the default client.
func plain(ctx context.Context, w stage.Wiring) (http.Handler, error) {
	rdb, err := openCoupon(ctx, w)
	return asking(askingRedis(rdb)), err
}

// pipeliner lets the client send concurrent calls in one pipeline.
func pipeliner(ctx context.Context, w stage.Wiring) (http.Handler, error) {
	rdb, err := openCoupon(ctx, w)
	if err != nil {
		return nil, err
	}
	pipe, err := rdb.AutoPipeline()
	return asking(askingRedis(pipe)), err
}

// openCoupon publishes the window of the coupon and loads the script.
func openCoupon(ctx context.Context, w stage.Wiring) (*redis.Client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: w.Redis})
	now := time.Now()
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, stage.StateKey(couponID), "opens", now.Add(-time.Hour).UnixMicro(),
			"closes", now.Add(24*time.Hour).UnixMicro(), "status", "OPEN", "sold", 0, "version", 1)
		one.Load(ctx, p)
		return nil
	})
	return rdb, err
}

func askingRedis(rdb redis.Scripter) func(ctx context.Context, a *application) error {
	const ttlSeconds = 7 * 24 * 60 * 60
	return func(ctx context.Context, a *application) error {
		reply, err := one.Run(ctx, rdb, couponKeys, a.UserID, ttlSeconds).Slice()
		if err != nil {
			return err
		}
		a.Status, _ = reply[0].(string)
		arrival, _ := reply[1].(int64)
		a.Position, _ = reply[2].(int64)
		a.at(time.UnixMicro(arrival).UTC())
		return nil
	}
}

// rowLock issues a coupon per request. It locks the row of the coupon until the commit.
func rowLock(_ context.Context, w stage.Wiring) (http.Handler, error) {
	config, err := mysql.ParseDSN(w.DSN)
	if err != nil {
		return nil, err
	}
	config.InterpolateParams = true // one round trip for each statement
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	const connections = 32 // the pool of the product; more connections would wait for the same row
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return asking(func(ctx context.Context, a *application) error {
		const duplicateEntry = 1062
		err := stage.InTransaction(ctx, db, func(tx *sql.Tx) error { return giveSeat(ctx, tx, a) })
		if stage.ErrorNumber(err) == duplicateEntry {
			a.Status, err = "DUPLICATE", nil
		}
		return err
	}), nil
}

func giveSeat(ctx context.Context, tx *sql.Tx, a *application) error {
	var issued int64
	err := tx.QueryRowContext(ctx, "SELECT total_quantity, issued_count FROM coupon WHERE id = ? FOR UPDATE",
		a.CouponID).
		Scan(&a.Seats, &issued)
	if err != nil {
		return err
	}
	if issued >= a.Seats {
		a.Status = "SOLD_OUT"
		return nil
	}
	now := time.Now().UTC()
	a.Status, a.Position = "ACCEPTED", issued+1
	a.at(now)
	_, err = tx.ExecContext(ctx, `INSERT INTO user_coupon (coupon_id, user_id, position, applied_at, expires_at)
		VALUES (?, ?, ?, ?, ?)`, a.CouponID, a.UserID, a.Position, now, now.AddDate(0, 0, 30))
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", a.CouponID)
	}
	return err
}
