package connect

import (
	"crypto/tls"
	"errors"
	"net"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/text"
)

// kafkaDialTimeout leaves time for another broker within one publication.
const kafkaDialTimeout = time.Second

// The values of KAFKA_SASL_MECHANISM.
const (
	saslPlain    = "PLAIN"
	saslScram256 = "SCRAM-SHA-256"
	saslScram512 = "SCRAM-SHA-512"
)

// topicName is what Kafka allows.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// KafkaSettings say how to reach the topic of EVENT_SINK=kafka.
type KafkaSettings struct {
	KafkaBrokers          []string `name:"kafka-brokers" env:"KAFKA_BROKERS" placeholder:"HOST:PORT"`
	KafkaTopic            string   `name:"kafka-topic" env:"KAFKA_TOPIC" default:"coupon-events" placeholder:"NAME"`
	KafkaTLS              bool     `name:"kafka-tls" env:"KAFKA_TLS"`
	KafkaTLSCAFile        string   `name:"kafka-tls-ca-file" env:"KAFKA_TLS_CA_FILE" type:"path" nosecret:"" placeholder:"FILE"`
	KafkaSASLMechanism    string   `name:"kafka-sasl-mechanism" env:"KAFKA_SASL_MECHANISM" enum:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512," default:""`
	KafkaSASLUsername     string   `name:"kafka-sasl-username" env:"KAFKA_SASL_USERNAME" placeholder:"NAME"`
	KafkaSASLPasswordFile string   `name:"kafka-sasl-password-file" env:"KAFKA_SASL_PASSWORD_FILE" type:"path" placeholder:"FILE"`
}

// Validate accepts settings without KAFKA_BROKERS; Options does not.
func (s *KafkaSettings) Validate() error {
	var problems []error
	add := func(wrong bool, m text.Message, args ...any) {
		if wrong {
			problems = append(problems, text.UsageErrorf(m, args...))
		}
	}
	for i, broker := range s.KafkaBrokers {
		add(!isAddress(broker), text.WrongAddress, "KAFKA_BROKERS", i+1)
	}
	add(!topicName.MatchString(s.KafkaTopic) || s.KafkaTopic == "." || s.KafkaTopic == "..", text.KafkaWrongTopic,
		s.KafkaTopic)
	if len(s.KafkaBrokers) == 0 {
		for _, other := range s.others() {
			add(other.given, text.KafkaBrokersMissingFor, other.name)
		}
		return errors.Join(problems...)
	}
	add(s.KafkaTLSCAFile != "" && !s.KafkaTLS, text.KafkaCAWithoutTLS)
	return errors.Join(append(problems, s.validateLogin())...)
}

type setting struct {
	name  string
	given bool
}

func (s *KafkaSettings) login() []setting {
	return []setting{
		{"KAFKA_SASL_USERNAME", s.KafkaSASLUsername != ""},
		{"KAFKA_SASL_PASSWORD_FILE", s.KafkaSASLPasswordFile != ""},
	}
}

func (s *KafkaSettings) others() []setting {
	return append([]setting{{"KAFKA_TLS", s.KafkaTLS}, {"KAFKA_TLS_CA_FILE", s.KafkaTLSCAFile != ""},
		{"KAFKA_SASL_MECHANISM", s.KafkaSASLMechanism != ""}}, s.login()...)
}

func (s *KafkaSettings) validateLogin() error {
	var problems []error
	if s.KafkaSASLMechanism == "" {
		for _, other := range s.login() {
			if other.given {
				problems = append(problems, text.UsageErrorf(text.KafkaMechanismMissing, other.name))
			}
		}
		return errors.Join(problems...)
	}
	password, err := secret("KAFKA_SASL_PASSWORD_FILE", s.KafkaSASLPasswordFile)
	switch {
	case err != nil:
		problems = append(problems, err)
	case s.KafkaSASLUsername == "" || password == "":
		problems = append(problems, text.UsageErrorf(text.KafkaLoginMissing))
	}
	if s.KafkaSASLMechanism == saslPlain && !s.KafkaTLS && slices.ContainsFunc(s.KafkaBrokers, isRemote) {
		problems = append(problems, text.UsageErrorf(text.KafkaPlainWithoutTLS))
	}
	return errors.Join(problems...)
}

// isRemote reports whether a broker may be on another machine.
func isRemote(broker string) bool {
	host, _, err := net.SplitHostPort(broker)
	ip := net.ParseIP(host)
	return err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// Options are the options of a Kafka client: how to connect and to log. The settings must be valid.
func (s *KafkaSettings) Options(logger *zap.Logger) ([]kgo.Opt, error) {
	if len(s.KafkaBrokers) == 0 {
		return nil, text.UsageErrorf(text.KafkaBrokersMissing)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(s.KafkaBrokers...),
		kgo.ClientID("jajeong"),
		kgo.DialTimeout(kafkaDialTimeout),
		kgo.DisableClientMetrics(), // they would delay Close
		kgo.WithLogger(kafkaLogger{logger.Named("kafka").Sugar()}),
	}
	if s.KafkaTLS {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if s.KafkaTLSCAFile != "" {
			var err error
			if config.RootCAs, err = roots("KAFKA_TLS_CA_FILE", s.KafkaTLSCAFile); err != nil {
				return nil, err
			}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	password, err := secret("KAFKA_SASL_PASSWORD_FILE", s.KafkaSASLPasswordFile)
	if err != nil {
		return nil, err
	}
	if mechanism := s.mechanism(password); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func (s *KafkaSettings) mechanism(password string) sasl.Mechanism {
	auth := scram.Auth{User: s.KafkaSASLUsername, Pass: password}
	switch s.KafkaSASLMechanism {
	case saslPlain:
		return plain.Auth{User: s.KafkaSASLUsername, Pass: password}.AsMechanism()
	case saslScram256:
		return auth.AsSha256Mechanism()
	case saslScram512:
		return auth.AsSha512Mechanism()
	default:
		return nil
	}
}

// kafkaLogger writes warnings and errors of a Kafka client.
type kafkaLogger struct{ log *zap.SugaredLogger }

func (kafkaLogger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (l kafkaLogger) Log(level kgo.LogLevel, message string, fields ...any) {
	if level == kgo.LogLevelError {
		l.log.Errorw(message, fields...)
		return
	}
	l.log.Warnw(message, fields...)
}
