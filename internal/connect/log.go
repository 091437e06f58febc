package connect

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LogSettings is the level of the log.
type LogSettings struct {
	LogLevel string `name:"log-level" env:"LOG_LEVEL" enum:"debug,info,warn,error" default:"${log_level}"`
}

// Logger writes one JSON line per event to w.
func (s *LogSettings) Logger(w io.Writer) *zap.Logger {
	level, err := zapcore.ParseLevel(s.LogLevel)
	if err != nil {
		level = zapcore.InfoLevel
	}
	encoder := zap.NewProductionEncoderConfig()
	encoder.TimeKey = "time"
	encoder.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoder), zapcore.Lock(zapcore.AddSync(w)), level))
}
