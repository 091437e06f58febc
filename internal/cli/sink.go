package cli

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/events/kafkasink"
	"github.com/jajeong/jajeong/internal/events/redissink"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/serve"
	"github.com/jajeong/jajeong/internal/text"
)

// sinkSettings say where events go.
type sinkSettings struct {
	connect.EventSettings `embed:""`
	connect.KafkaSettings `embed:""`
}

func (s *sinkSettings) Validate() error {
	return errors.Join(s.EventSettings.Validate(), s.KafkaSettings.Validate(), s.needs(s.EventSink))
}

// needs returns an error if settings of the sink of a name are missing.
func (s *sinkSettings) needs(name string) error {
	return refuse(name == connect.KafkaSink && len(s.KafkaBrokers) == 0, text.KafkaBrokersMissing)
}

// open opens the sink of a name, which is not connect.NoSink. It does not connect.
func (s *sinkSettings) open(p *program, name string) (events.Sink, error) {
	if name == connect.KafkaSink {
		options, err := s.KafkaSettings.Options(p.logger)
		if err != nil {
			return nil, err
		}
		return kafkasink.New(s.KafkaTopic, options...)
	}
	rdb, err := s.OpenRedis(&p.RedisSettings)
	if err != nil {
		return nil, err
	}
	return redissink.New(rdb, redissink.Options{Stream: s.EventStream, Retention: s.EventRetention})
}

// relaySession is how long the relay's session may be idle in the middle of a round. It is longer than a publication. If a
// process is frozen, another takes over after this time.
const relaySession = events.PublishTimeout + time.Second

// eventsTask makes the task that publishes events. closeTask closes its connections, and is never nil.
func (c *serveCmd) eventsTask(p *program, s *settler) (task *serve.Events, closeTask func(), err error) {
	logger := p.logger.Named(eventsTask)
	sink, err := c.open(p, c.EventSink)
	if err != nil {
		return nil, func() {}, err
	}
	locks, err := p.MySQLSettings.OpenBrief(logger, relaySession)
	if err != nil {
		return nil, sink.Close, err
	}
	relay := events.NewRelay(events.Config{Name: c.EventSink, Sink: sink, Locks: mysqltx.NewBrief(locks), Rows: s.MySQL, Now: p.Now})
	delay := func(ctx context.Context) (time.Duration, error) { return events.Delay(ctx, s.MySQL, c.EventSink) }
	task = serve.NewEvents(serve.EventsConfig{Relay: relay, Delay: delay, Now: p.Now, Logger: logger})
	logger.Info("events go to a sink", zap.String("sink", c.EventSink))
	return task, func() {
		sink.Close()
		_ = locks.Close()
	}, nil
}
