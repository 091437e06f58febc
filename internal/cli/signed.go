package cli

import "strings"

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
func (s *signed) missing(why words) (problems []error) {
	if strings.TrimSpace(s.Operator) == "" {
		problems = append(problems, wrong(words{"--operator가 없습니다: " + why.ko, "--operator is missing: " + why.en}))
	}
	if strings.TrimSpace(s.Reason) == "" {
		problems = append(problems, wrong(words{"--reason이 없습니다. 티켓 번호 같은 까닭을 주세요. 기록에 남깁니다", "--reason is missing: say why, such as a ticket; it is kept"}))
	}
	return problems
}

func (s *signed) tooLong() []error {
	if len([]rune(s.Operator)) > maxOperatorLetters || len([]rune(s.Reason)) > maxReasonLetters {
		return []error{wrong(words{"--operator는 %d자, --reason은 %d자까지입니다", "--operator takes up to %d letters and --reason up to %d"}, maxOperatorLetters, maxReasonLetters)}
	}
	return nil
}
