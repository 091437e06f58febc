package cli

import (
	"cmp"
	"errors"
	"strings"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
)

// Widths, in characters, of the columns for operator and reason in settlement_run and audit_event.
const (
	maxOperatorLetters = 100
	maxReasonLetters   = 500
)

type operatorFlags struct {
	Operator string `placeholder:"NAME" form:"-"`
	Reason   string `placeholder:"TEXT" form:"-"`
}

// check returns an error if the operator or the reason is missing or too long. why tells why an operator is required.
func (s *operatorFlags) check(why text.Message) error {
	return errors.Join(
		about("--operator", cmp.Or(refuse(strings.TrimSpace(s.Operator) == "", text.OperatorMissing, why),
			refuse(!signin.Visible(s.Operator), text.OperatorInvisible))),
		about("--reason", refuse(strings.TrimSpace(s.Reason) == "", text.ReasonMissing)),
		s.wrong())
}

// wrong returns an error if the operator has the program's name, or if a text is too long. Both may be missing.
func (s *operatorFlags) wrong() error {
	return errors.Join(
		about("--operator", refuse(audit.NamesProgram(s.Operator), text.OperatorIsProgram, s.Operator)),
		refuse(len([]rune(s.Operator)) > maxOperatorLetters || len([]rune(s.Reason)) > maxReasonLetters,
			text.OperatorOrReasonTooLong, maxOperatorLetters, maxReasonLetters))
}

// checkUnless is check for a verb with a preview, which records nobody.
func (s *operatorFlags) checkUnless(dryRun bool) error {
	if dryRun {
		return s.wrong()
	}
	return s.check(text.OperatorIsRecorded)
}

func (s *operatorFlags) operator() string { return s.Operator }

// noKey refuses an operator at a terminal who has the name of a key of the management API.
func noKey(command any) error {
	if named, ok := command.(interface{ operator() string }); ok && audit.NamesKey(named.operator()) {
		return about("--operator", text.UsageErrorf(text.OperatorIsKey, named.operator()))
	}
	return nil
}

// about names the flag whose value is wrong, so that each flag has one error.
func about(flag string, err error) error {
	if err != nil {
		return text.About(strings.TrimPrefix(flag, "--"), err)
	}
	return nil
}

func refuse(wrong bool, m text.Message, args ...any) error {
	if wrong {
		return text.UsageErrorf(m, args...)
	}
	return nil
}
