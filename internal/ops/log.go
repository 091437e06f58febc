package ops

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Sampled writes at most so many equal lines per second: every request fails while a server is away.
func Sampled(logger *zap.Logger, perSecond int) *zap.Logger {
	return logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, perSecond, 0)
	}))
}
