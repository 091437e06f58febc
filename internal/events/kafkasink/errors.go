package kafkasink

import (
	"crypto/tls"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/jajeong/jajeong/internal/text"
)

// setupErrors are errors of Kafka that a repetition cannot cure.
var setupErrors = []struct {
	errors  []error
	advice  text.Message
	namesIt bool // the advice names the topic
}{
	{[]error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID}, text.KafkaTopicMissing, true},
	{[]error{kerr.InvalidTopicException, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord},
		text.KafkaTopicRefuses, true},
	{[]error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState},
		text.KafkaLoginRefused, false},
	{[]error{kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed}, text.KafkaRightsMissing, true},
}

// Error is an error of Kafka or of the network that may pass by itself.
type Error struct{ error }

func (e *Error) Unwrap() error { return e.error }

// Infrastructure gives the error its class: see mysqltx.ClassOf.
func (*Error) Infrastructure() bool { return true }

func (s *Sink) classify(err error) error {
	for _, kind := range setupErrors {
		if slices.ContainsFunc(kind.errors, func(one error) bool { return errors.Is(err, one) }) {
			if kind.namesIt {
				return text.UsageErrorf(kind.advice, s.topic, err)
			}
			return text.UsageErrorf(kind.advice, err)
		}
	}
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); refused {
		return text.UsageErrorf(text.KafkaCertificateRefused, err)
	}
	return &Error{err}
}
