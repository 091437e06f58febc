// Command consumer shows how a program of the shop reads Jajeong's events from a Redis stream. It is meant to be
// copied: it imports nothing of Jajeong.
//
//	consumer run --name "$HOSTNAME"   reads events until SIGTERM
//	consumer dlq                      lists the events that could not be handled
//	consumer replay                   handles them again now
//
// What it promises, and where:
//
//   - No event is lost (consumer.go). An event is acknowledged after its effect was committed. What a killed consumer
//     leaves behind is taken by another one, or by the same one when it starts again under its name.
//   - Each event has its effect once (shop.go). Repetitions are dropped by (source, id), in the transaction of the
//     effect.
//   - A bad event does not stop the others (consumer.go, dlq.go). It is tried five times and then goes to the DLQ
//     stream, whose events are tried again every five minutes: what a mended program or database can handle needs
//     nobody.
//   - The state of a coupon never goes back (shop.go). The events of one coupon of one user are numbered, and a number
//     that is not above the last one changes no state. So an event that failed is not waited for: if a later event of
//     its coupon is handled first, the failed one is still counted when it succeeds, but its state is never shown.
//   - Events that Redis trimmed before the group handled them are reported (consumer.go). They are still in the
//     database of Jajeong, which publishes them again on request.
//
// An event that kills the whole process, for example because it needs too much memory, is not recognised: it is tried
// for ever.
//
// Exit codes: 0 done, or stopped by SIGTERM; 1 a server is away, or events failed again; 2 wrong usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
)

type settings struct {
	Redis []string `default:"127.0.0.1:6379" env:"EVENT_REDIS_ADDRS" help:"Redis servers as host:port. More than one: a Cluster."`
	MySQL string   `name:"mysql" default:"shop@tcp(127.0.0.1:3306)/shop" env:"SHOP_MYSQL_DSN" help:"DSN of the shop's database."`
	DLQ   string   `name:"dlq" default:"coupon:events:dlq" env:"SHOP_DLQ_STREAM" help:"DLQ stream. Each group needs its own."`

	Run    runSettings    `cmd:"" help:"Read events until SIGTERM."`
	List   struct{}       `cmd:"" name:"dlq" help:"List the events in the DLQ stream."`
	Replay replaySettings `cmd:"" help:"Handle events of the DLQ stream again. Those that succeed leave it."`
}

type runSettings struct {
	Stream      string        `default:"coupon:events" env:"EVENT_STREAM" help:"Stream to read."`
	Group       string        `default:"shop" env:"SHOP_GROUP" help:"Consumer group. Each group gets every event."`
	Name        string        `required:"" env:"SHOP_CONSUMER" help:"Name in the group: unique, and the same after a restart."`
	ClaimAfter  time.Duration `default:"30s" help:"Events that nobody acknowledged for so long are tried again."`
	ReplayEvery time.Duration `default:"5m" help:"How often events of the DLQ stream are handled again."`
	UntilEmpty  bool          `help:"End when every event is read and none is pending."`
}

type replaySettings struct {
	ID string `default:"all" help:"Entry of the DLQ stream, as listed by dlq."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s settings
	helped := false
	parser := kong.Must(&s, kong.Name("consumer"), kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }))
	command, err := parser.Parse(args)
	if helped {
		return 0
	}
	var shop *Shop
	if err == nil {
		err = noneEmpty(command.Flags())
	}
	if err == nil {
		shop, err = OpenShop(s.MySQL)
	}
	if err != nil {
		fmt.Fprintln(stderr, "consumer:", err)
		return 2
	}
	defer shop.Close()
	// Nothing is repeated behind our back: a read whose reply was lost has moved events to this consumer's pending
	// ones.
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: s.Redis, MaxRetries: -1,
		Username: os.Getenv("SHOP_REDIS_USERNAME"), Password: os.Getenv("SHOP_REDIS_PASSWORD")})
	defer client.Close()

	dlq := &DLQ{client, s.DLQ}
	switch command.Command() {
	case "run":
		c := &Consumer{runSettings: s.Run, redis: client, handler: shop, dlq: dlq,
			log:    slog.New(slog.NewJSONHandler(stderr, nil)),
			counts: map[string]int{}}
		c.Run(ctx)
		err = json.NewEncoder(stdout).Encode(c.counts)
	case "dlq":
		err = dlq.List(ctx, stdout)
	case "replay":
		var failed int
		if _, failed, err = dlq.Replay(ctx, shop, s.Replay.ID, stdout); failed > 0 && err == nil {
			err = fmt.Errorf("%d events failed again and stay in DLQ stream %s", failed, s.DLQ)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "consumer:", err)
		return 1
	}
	return 0
}

// Validate is called by kong.
func (r *runSettings) Validate() error {
	switch {
	case r.ClaimAfter < time.Millisecond:
		return errors.New("--claim-after must be positive")
	case r.ReplayEvery < time.Millisecond:
		return errors.New("--replay-every must be positive")
	default:
		return nil
	}
}

func noneEmpty(flags []*kong.Flag) error {
	for _, flag := range flags {
		if kind := flag.Target.Kind(); (kind == reflect.String || kind == reflect.Slice) && flag.Target.Len() == 0 {
			return fmt.Errorf("--%s is empty: give a value", flag.Name)
		}
	}
	return nil
}
