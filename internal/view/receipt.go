package view

import (
	"cmp"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/receipt"
	"github.com/jajeong/jajeong/internal/text"
)

// ReceiptStory is a receipt and what became of its application.
type ReceiptStory struct {
	Receipt  receipt.Receipt `json:"receipt"`
	Fate     journal.Fate    `json:"fate"`
	Arrival  coupon.Arrival  `json:"arrival,omitempty"`  // arrival that waits or was settled; 0: there is none
	Later    bool            `json:"later,omitempty"`    // Arrival is later than the receipt says
	Position int64           `json:"position,omitempty"` // position in the queue, from 1
	Cause    string          `json:"cause,omitempty"`    // cause of the DLQ entry; empty: there is none
	Seat     uint64          `json:"seat,omitempty"`     // 0: given by hand, or not issued
	IssuedAt *time.Time      `json:"issuedAt,omitempty"`
	Digest   string          `json:"digest,omitempty"` // of a dry run that would change something
}

// ReceiptStory prints two sentences: about the receipt, and about its application.
func (v View) ReceiptStory(s *ReceiptStory) {
	r := s.Receipt
	fmt.Fprintln(v.W, v.Sprintf(text.ReceiptIsRight, r.User, r.Coupon, r.Arrival.Time()), v.fate(s))
	if s.Digest != "" {
		output.Digest(v.W, s.Digest)
	}
}

func (v View) fate(s *ReceiptStory) string {
	place := v.Language.Nth(s.Position)
	switch s.Fate {
	case journal.Waiting:
		if s.Later {
			return v.Sprintf(text.ReceiptStandsLater, s.Arrival.Time(), place)
		}
		return v.Sprintf(text.ReceiptWaits, place)
	case journal.PutBack:
		return v.Sprintf(text.ReceiptPutBack, place)
	case journal.Moved:
		return v.Sprintf(text.ReceiptMoved, place)
	case journal.UnderReview:
		return v.Sprintf(text.ReceiptUnderReview, output.Word(v.Language, cmp.Or(s.Cause, history.UnknownCause)))
	case journal.Issued:
		if s.Seat == 0 {
			return v.Sprintf(text.ReceiptByHand, *s.IssuedAt)
		}
		return v.Sprintf(text.ReceiptIssued, s.Seat, *s.IssuedAt)
	case journal.Final:
		return v.Sprintf(text.ReceiptFinal, s.Receipt.Coupon, s.Receipt.User)
	default:
		return v.Sprintf(fates[s.Fate])
	}
}

// fates are the sentences without figures.
var fates = map[journal.Fate]text.Message{
	journal.NotSelected: text.ReceiptNotSelected, journal.Rejected: text.ReceiptRejected,
	journal.Lost: text.ReceiptLost,
}
