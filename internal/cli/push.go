package cli

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/text"
)

// pushFlags name the Pushgateway of a Job, and the deployment to which its metrics belong.
type pushFlags struct {
	PushGateway   string `name:"push-gateway" env:"PUSH_GATEWAY" placeholder:"URL" form:"-"`
	PushNamespace string `name:"push-namespace" env:"PUSH_NAMESPACE" placeholder:"NAME" form:"-"`
}

func (f *pushFlags) wrong() error {
	return refuse(!ops.ValidGateway(f.PushGateway), text.WrongGateway)
}

// pusher pushes to a group of this deployment, which no other deployment overwrites.
func (f *pushFlags) pusher(job string, logger *zap.Logger, metrics ...prometheus.Collector) *ops.Pusher {
	p := ops.NewPusher(f.PushGateway, job, logger, metrics...)
	if f.PushNamespace != "" {
		p.Grouping("namespace", f.PushNamespace)
	}
	return p
}
