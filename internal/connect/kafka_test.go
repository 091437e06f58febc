package connect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
)

func parseKafka(t *testing.T, args ...string) (s connect.KafkaSettings, problems []string) {
	t.Helper()
	var c struct {
		Kafka connect.KafkaSettings `embed:""`
	}
	problems = problemsOf(&c, args)
	return c.Kafka, problems
}

func TestKafkaSettings_Problems(t *testing.T) {
	const at = "--kafka-brokers=kafka:9092"
	mechanismMissing := func(name string) string {
		return name + " needs KAFKA_SASL_MECHANISM, too: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
	}
	const loginMissing = "KAFKA_SASL_MECHANISM needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD_FILE, too"
	const plainWithoutTLS = "KAFKA_SASL_MECHANISM=PLAIN sends the password as it is and needs KAFKA_TLS=true; " +
		"without TLS, use SCRAM-SHA-512"
	login := []string{"--kafka-sasl-username=u", "--kafka-sasl-password-file=" + testenv.SecretFile(t, "secret")}
	for name, test := range map[string]struct{ args, want []string }{
		"nothing": {},
		"brokers": {args: []string{"--kafka-brokers=a:1,[::1]:2"}},
		"wrong brokers": {args: []string{"--kafka-brokers=a,b:0,:3"},
			want: []string{wrongAddress("KAFKA_BROKERS", 1), wrongAddress("KAFKA_BROKERS", 2),
				wrongAddress("KAFKA_BROKERS", 3)}},
		"empty brokers": {args: []string{"--kafka-brokers="},
			want: []string{"KAFKA_BROKERS (--kafka-brokers) is empty: want a value"}},
		"topic": {args: []string{at, "--kafka-topic=a b"},
			want: []string{`KAFKA_TOPIC is "a b": want a name of at most 249 letters, digits, '.', '_' and '-'`}},
		"without brokers": {args: []string{"--kafka-tls", "--kafka-sasl-username=u"},
			want: []string{"KAFKA_TLS needs KAFKA_BROKERS, too", "KAFKA_SASL_USERNAME needs KAFKA_BROKERS, too"}},
		"CA without TLS": {args: []string{at, "--kafka-tls-ca-file=ca.pem"},
			want: []string{"KAFKA_TLS_CA_FILE needs KAFKA_TLS=true, too"}},
		"unknown mechanism": {args: []string{at, "--kafka-sasl-mechanism=GSSAPI"},
			want: []string{
				`KAFKA_SASL_MECHANISM (--kafka-sasl-mechanism) is "GSSAPI": want one of PLAIN, SCRAM-SHA-256, ` +
					`SCRAM-SHA-512`}},
		"login without mechanism": {args: append(login, at),
			want: []string{mechanismMissing("KAFKA_SASL_USERNAME"), mechanismMissing("KAFKA_SASL_PASSWORD_FILE")}},
		"mechanism without login": {args: []string{at, "--kafka-sasl-mechanism=SCRAM-SHA-256"},
			want: []string{loginMissing}},
		"mechanism without password": {args: []string{at, "--kafka-sasl-mechanism=SCRAM-SHA-256",
			"--kafka-sasl-username=u"},
			want: []string{loginMissing}},
		"password that cannot be read": {args: []string{at, "--kafka-sasl-username=u",
			"--kafka-sasl-mechanism=SCRAM-SHA-256", "--kafka-sasl-password-file=/nowhere"},
			want: []string{"KAFKA_SASL_PASSWORD_FILE cannot be read: no such file or directory"}},
		"PLAIN without TLS": {args: append(login, at, "--kafka-sasl-mechanism=PLAIN"),
			want: []string{plainWithoutTLS}},
		"PLAIN without TLS, one is local": {args: append(login, "--kafka-brokers=localhost:1,10.0.0.1:1",
			"--kafka-sasl-mechanism=PLAIN"), want: []string{plainWithoutTLS}},
		"PLAIN on this machine": {args: append(login, "--kafka-brokers=localhost:1,127.0.0.2:1,[::1]:1",
			"--kafka-sasl-mechanism=PLAIN")},
		"PLAIN with TLS":    {args: append(login, at, "--kafka-sasl-mechanism=PLAIN", "--kafka-tls")},
		"SCRAM without TLS": {args: append(login, at, "--kafka-sasl-mechanism=SCRAM-SHA-512")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, problems := parseKafka(t, test.args...)
			require.ElementsMatch(t, test.want, problems)
			require.NotContains(t, strings.Join(problems, "\n"), "secret")
			if len(problems) == 0 && len(s.KafkaBrokers) > 0 {
				_, err := s.Options(zap.NewNop())
				require.NoError(t, err)
			}
		})
	}
}

func TestKafkaSettings_Options(t *testing.T) {
	t.Parallel()
	s, _ := parseKafka(t)
	require.Equal(t, connect.KafkaSettings{KafkaTopic: "coupon-events"}, s)
	_, err := s.Options(zap.NewNop())
	require.EqualError(t, err, "EVENT_SINK=kafka needs KAFKA_BROKERS, the host:port of Kafka's brokers")

	empty := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(empty, []byte("no certificate"), 0o600))
	s = connect.KafkaSettings{KafkaBrokers: []string{"a:1"}, KafkaTLS: true, KafkaTLSCAFile: empty}
	_, err = s.Options(zap.NewNop())
	require.EqualError(t, err, "KAFKA_TLS_CA_FILE: the file has no certificate in PEM format")
	s.KafkaTLSCAFile += "2"
	_, err = s.Options(zap.NewNop())
	require.EqualError(t, err, "KAFKA_TLS_CA_FILE cannot be read: no such file or directory")
}

func TestKafkaSettings_Logger(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	s := connect.KafkaSettings{KafkaBrokers: []string{"127.0.0.1:1"}}
	options, err := s.Options(zap.New(core))
	require.NoError(t, err)
	client, err := kgo.NewClient(options...)
	require.NoError(t, err)
	defer client.Close()
	require.Error(t, client.Ping(t.Context()))
	require.NotEmpty(t, logs.All())
	require.Equal(t, "kafka", logs.All()[0].LoggerName)
	require.Equal(t, zap.WarnLevel, logs.All()[0].Level)
}
