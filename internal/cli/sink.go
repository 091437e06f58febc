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

// eventStream is the key of the stream of events, without REDIS_KEY_PREFIX. The prefix tells two deployments on one
// server apart.
const eventStream = "coupon:events"

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

// open opens the sink of a name, which is not connect.NoSink. It does not connect. The sink removes events from a
// stream that are older than the retention; 0: none.
func (s *sinkSettings) open(p *program, name string, retention time.Duration) (events.Sink, error) {
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
	return redissink.New(rdb, redissink.Options{Stream: p.Candidates.KeyPrefix + eventStream, Retention: retention})
}

// eventsTask makes the task that publishes events. closeTask closes the sink, and is never nil. A brief session of the
// relay is idle for no longer than a publication takes; if a process is frozen, another takes over when its session
// ends.
func (c *serveCmd) eventsTask(p *program, s *settler,
	brief *mysqltx.DB) (task *serve.Events, closeTask func(), err error) {
	logger := p.logger.Named(eventsTask)
	sink, err := c.open(p, c.EventSink, c.EventRetention)
	if err != nil {
		return nil, func() {}, err
	}
	relay := events.NewRelay(events.Config{Name: c.EventSink, Sink: sink, DB: brief, Now: p.Now})
	shortfall := func(ctx context.Context) (events.Shortfall, error) {
		return events.ReadShortfall(ctx, s.MySQL, c.EventSink)
	}
	task = serve.NewEvents(serve.EventsConfig{Relay: relay, Shortfall: shortfall, Now: p.Now, Logger: logger})
	logger.Info("events go to a sink", zap.String("sink", c.EventSink))
	return task, sink.Close, nil
}
