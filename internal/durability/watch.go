package durability

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	// every is how often a Watch looks: another server may have taken over, or a replica may have gone.
	every  = 15 * time.Second
	within = 5 * time.Second
)

// Watch looks at the server of a pool again and again, logs what changes, and tells it on the admin port.
type Watch struct {
	DB     *sql.DB
	Logger *zap.Logger

	mu     sync.Mutex
	err    error // why the last look failed
	looked bool  // the server has answered once
	last   []Finding
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for {
		w.look(ctx)
		if sleep.For(ctx, every) != nil {
			return
		}
	}
}

// look logs what has changed since the server last answered.
func (w *Watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	found, err := look(ctx, Of(w.DB))
	w.mu.Lock()
	if w.err = err; err != nil {
		w.mu.Unlock()
		return // programs log it where they need the server
	}
	changed := !w.looked || !slices.Equal(found, w.last)
	w.looked, w.last = true, found
	w.mu.Unlock()
	if !changed {
		return
	}
	if len(found) == 0 {
		w.Logger.Info("mysql keeps what it commits, as far as its settings say")
	}
	for _, f := range found {
		fields := []zap.Field{zap.String("code", string(f.Code)), zap.String("variable", f.Variable),
			zap.String("value", f.Value), zap.String("want", f.Want)}
		switch f.Code {
		case Unknown:
			w.Logger.Info("not known whether mysql keeps what it commits", fields...)
		case NoWrite:
			w.Logger.Warn("mysql takes no writes", fields...)
		default:
			w.Logger.Warn("mysql may lose what it commits", fields...)
		}
	}
}

// Err says what is weak or not known; nil: the server has answered, and everything is as it should be.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return fmt.Errorf("not known: %w", w.err)
	case !w.looked:
		return errors.New("not known yet")
	case len(w.last) == 0:
		return nil
	default:
		return errors.New(Strings(w.last))
	}
}

// Strings joins findings.
func Strings(all []Finding) string {
	texts := make([]string, len(all))
	for i, f := range all {
		texts[i] = f.String()
	}
	return strings.Join(texts, "; ")
}

var findingDesc = prometheus.NewDesc("jajeong_mysql_durability_findings",
	"Variables of MySQL that may let it lose what it commits, that it does not show, or that make it read-only, "+
		"by code; "+
		"absent while it does not answer.", []string{"code"}, nil)

func (w *Watch) Describe(to chan<- *prometheus.Desc) { to <- findingDesc }

func (w *Watch) Collect(to chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.looked || w.err != nil {
		return
	}
	for _, code := range []Code{Weak, Unknown, NoWrite} {
		n := 0
		for _, f := range w.last {
			if f.Code == code {
				n++
			}
		}
		to <- prometheus.MustNewConstMetric(findingDesc, prometheus.GaugeValue, float64(n), string(code))
	}
}
