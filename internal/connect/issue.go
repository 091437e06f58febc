package connect

import (
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

// The bounds of ISSUE_INTERVAL: a shorter interval would cost more than it gains, a longer one would be no heartbeat.
const (
	minIssueInterval = 20 * time.Millisecond
	maxIssueInterval = 5 * time.Second
)

// IssueSettings are the settings that settle serve and apply-api share: an applicant is told when the next look comes.
type IssueSettings struct {
	IssueInterval time.Duration `name:"issue-interval" env:"ISSUE_INTERVAL" default:"100ms" placeholder:"DURATION"`
}

func (s *IssueSettings) Validate() error {
	if s.IssueInterval < minIssueInterval || s.IssueInterval > maxIssueInterval {
		return text.UsageErrorf(text.WrongIssueInterval, s.IssueInterval, minIssueInterval, maxIssueInterval)
	}
	return nil
}
