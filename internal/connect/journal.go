package connect

import "github.com/jajeong/jajeong/internal/text"

// The bounds of JOURNAL_ROWS_PER_SECOND. Below the lower one, the journal could not follow a single busy coupon.
const (
	minJournalRows = 100
	maxJournalRows = 10_000_000
)

// JournalSettings are the settings of the task journal of settle serve.
type JournalSettings struct {
	JournalRowsPerSecond int `name:"journal-rows-per-second" env:"JOURNAL_ROWS_PER_SECOND" default:"50000" placeholder:"ROWS"`
}

func (s *JournalSettings) Validate() error {
	if s.JournalRowsPerSecond < minJournalRows || s.JournalRowsPerSecond > maxJournalRows {
		return text.UsageErrorf(text.WrongJournalRows, s.JournalRowsPerSecond, minJournalRows, maxJournalRows)
	}
	return nil
}
