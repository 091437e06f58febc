package audit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// The checker parses the details of two actions.
const (
	arrivalMark  = `", arrival `
	cutoffPrefix = "cutoff "
)

// ApplicationEntry describes one application by its member and arrival.
func ApplicationEntry(member string, arrival coupon.Arrival) Entry {
	return Entry{User: coupon.ParseUserID(member), Detail: fmt.Sprintf("%q, arrival %d", member, arrival)}
}

// Arrival is the arrival in the detail of an ApplicationEntry; 0 when the detail was cut before it or has none.
func (e Event) Arrival() coupon.Arrival {
	at := strings.LastIndex(e.Detail, arrivalMark)
	if at < 0 {
		return 0
	}
	arrival, _ := strconv.ParseInt(e.Detail[at+len(arrivalMark):], 10, 64)
	return arrival
}

// SettleEntry describes a manual settlement.
func SettleEntry(cutoff time.Time, issued int, winnersDigest string) Entry {
	result := "nothing issued"
	if issued > 0 {
		result = fmt.Sprintf("issued %d, %s", issued, winnersDigest)
	}
	return Entry{Detail: cutoffPrefix + cutoff.UTC().Format(time.RFC3339Nano) + ", " + result}
}

// Cutoff is the cutoff in the detail of a SettleEntry, unparsed; empty when there is none.
func (e Event) Cutoff() string {
	text, ok := strings.CutPrefix(e.Detail, cutoffPrefix)
	if !ok {
		return ""
	}
	cutoff, _, _ := strings.Cut(text, ",")
	return cutoff
}
