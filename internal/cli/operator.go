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
	return errors.Join(append(s.missing(why), s.tooLong())...)
}

func (s *operatorFlags) missing(why text.Message) (problems []error) {
	if strings.TrimSpace(s.Operator) == "" {
		problems = append(problems, text.UsageErrorf(text.OperatorMissing, why))
	}
	if strings.TrimSpace(s.Reason) == "" {
		problems = append(problems, text.UsageErrorf(text.ReasonMissing))
	}
	return problems
}

func (s *operatorFlags) tooLong() error {
	if len([]rune(s.Operator)) > maxOperatorLetters || len([]rune(s.Reason)) > maxReasonLetters {
		return text.UsageErrorf(text.OperatorOrReasonTooLong, maxOperatorLetters, maxReasonLetters)
	}
	return nil
}
