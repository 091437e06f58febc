package cli

import (
	"errors"
	"strings"

	"github.com/jajeong/jajeong/internal/text"
)

// Column widths of settlement_run and audit_event.
const (
	maxOperatorLetters = 100
	maxReasonLetters   = 500
)

// operatorFlags name the operator and the reason, which are recorded.
type operatorFlags struct {
	Operator string `placeholder:"NAME"`
	Reason   string `placeholder:"TEXT"`
}

// check refuses an operator or a reason that is missing or too long. why is the reason that they are required.
func (s *operatorFlags) check(why text.Message) error {
	return errors.Join(
		refuse(strings.TrimSpace(s.Operator) == "", text.OperatorMissing, why),
		refuse(strings.TrimSpace(s.Reason) == "", text.ReasonMissing),
		s.tooLong())
}

func (s *operatorFlags) tooLong() error {
	return refuse(len([]rune(s.Operator)) > maxOperatorLetters || len([]rune(s.Reason)) > maxReasonLetters,
		text.OperatorOrReasonTooLong, maxOperatorLetters, maxReasonLetters)
}

// refuse is an error about wrong use, when something is wrong.
func refuse(wrong bool, m text.Message, args ...any) error {
	if wrong {
		return text.UsageErrorf(m, args...)
	}
	return nil
}
