package main

import (
	"errors"
	"fmt"
	"strings"
)

// Column widths of settlement_run and audit_event.
const (
	maxOperatorLetters = 100
	maxReasonLetters   = 500
)

// signed is what a person does in their name, which is kept with the reason.
type signed struct {
	Operator string `placeholder:"NAME" help:"Who does this; it is kept."`
	Reason   string `placeholder:"TEXT" help:"Why, such as a ticket; it is kept."`
}

// missing tells what is not given; why says why it must be.
func (s *signed) missing(why string) (problems []error) {
	if strings.TrimSpace(s.Operator) == "" {
		problems = append(problems, fmt.Errorf("--operator is missing: %s", why))
	}
	if strings.TrimSpace(s.Reason) == "" {
		problems = append(problems, errors.New("--reason is missing: say why, such as a ticket; it is kept"))
	}
	return problems
}

func (s *signed) tooLong() []error {
	if len([]rune(s.Operator)) > maxOperatorLetters || len([]rune(s.Reason)) > maxReasonLetters {
		return []error{fmt.Errorf("--operator takes up to %d letters and --reason up to %d", maxOperatorLetters, maxReasonLetters)}
	}
	return nil
}
