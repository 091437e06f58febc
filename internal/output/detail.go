package output

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

// OfRequest is text about a request for approval, which not everybody may see who sees the rest.
type OfRequest string

// Detail puts the stored detail of an audit event into words, with times in l.Zone. A detail that this version does not know is
// shown as it is stored.
func (l Locale) Detail(stored string) string {
	if words, known := l.sentence(stored); known {
		return words
	}
	var parts []string
	for _, part := range commas(stored) {
		words, known := l.part(part)
		if !known {
			return Printable(stored)
		}
		parts = append(parts, words)
	}
	return strings.Join(parts, ", ")
}

var (
	writtenOff = regexp.MustCompile(`^(\d+) applications written off: (.*); (\S+)$`)
	gapHeld    = regexp.MustCompile(`^held: (\d+) of (\d+) accepted applications? cannot be found \(([^()]*)\); `)
	countHeld  = regexp.MustCompile(`^held: issued_count of coupon \d+ is (\d+), but user_coupon has (\d+) rows? for (\d+) seats?; `)
)

// details are details that are whole sentences.
var details = map[string]text.Message{
	"all that are under review":          text.DetailAllUnderReview,
	"so that a run issues the new seats": text.DetailForNewSeats,
}

func (l Locale) sentence(stored string) (words string, known bool) {
	if m, known := details[stored]; known {
		return l.Sprintf(m), true
	}
	if m := writtenOff.FindStringSubmatch(stored); m != nil {
		account := l.account(m[2])
		return l.Sprintf(text.DetailWrittenOff, m[1], account, m[3]), account != ""
	}
	if m := gapHeld.FindStringSubmatch(stored); m != nil {
		account := l.account(m[3])
		return l.Sprintf(text.DetailGapHeld, m[1], m[2], account), account != ""
	}
	if m := countHeld.FindStringSubmatch(stored); m != nil {
		return l.Sprintf(text.DetailCountHeld, m[1], m[2], m[3]), true
	}
	return "", false
}

// account puts the figures of a ledger.Account into words; empty if one of them is unknown.
func (l Locale) account(stored string) string {
	var parts []string
	for _, part := range strings.Split(stored, ", ") {
		at := strings.LastIndexByte(part, ' ')
		if at < 0 {
			return ""
		}
		word, known := accountWords[part[:at]]
		if !known {
			return ""
		}
		parts = append(parts, l.Sprintf(word)+" "+part[at+1:])
	}
	return strings.Join(parts, ", ")
}

var accountWords = map[string]text.Message{
	"accepted": text.ColumnAccepted, "waiting": text.ColumnWaiting, "under review": text.ColumnUnderReview, "issued": text.ColumnIssued,
	"other outcomes": text.ColumnOtherOutcomes, "counted twice": text.DetailTwice, "written off": text.ColumnWrittenOff,
	"accepted again after a failover": text.DetailAskedAgain,
}

// commas splits a detail at its commas, except those in a quoted name.
func commas(stored string) (parts []string) {
	for stored != "" {
		end := strings.Index(stored, ", ")
		if at := strings.IndexByte(stored, '"'); at >= 0 && at < end {
			quoted, err := strconv.QuotedPrefix(stored[at:])
			if err != nil {
				return []string{stored}
			}
			end = strings.Index(stored[at+len(quoted):], ", ")
			if end >= 0 {
				end += at + len(quoted)
			}
		}
		if end < 0 {
			return append(parts, stored)
		}
		parts, stored = append(parts, stored[:end]), stored[end+2:]
	}
	return parts
}

const change = " → "

// part words one part of a detail: "column value" or "column old → new", a digest, or a member of the queue.
func (l Locale) part(part string) (words string, known bool) {
	name, value, _ := strings.Cut(part, " ")
	column, known := detailColumns[name]
	switch {
	case part == "nothing issued":
		return l.Sprintf(text.DetailNothingIssued), true
	case part == "free seat":
		return l.Sprintf(text.DetailFreeSeat), true
	case strings.HasPrefix(part, "sha256:") && value == "":
		return Printable(part), true
	case strings.HasPrefix(part, `"`):
		member, err := strconv.Unquote(part)
		return l.Sprintf(text.DetailMember, Printable(member)), err == nil
	case !known:
		return "", false
	}
	was, is, changed := strings.Cut(value, change)
	was, knowsOld := column.value(l, was)
	if !changed {
		return l.Sprintf(column.name) + " " + was, knowsOld
	}
	is, knowsNew := column.value(l, is)
	return l.Sprintf(column.name) + " " + was + change + is, knowsOld && knowsNew
}

// detailColumn is a column or a figure that details have.
type detailColumn struct {
	name  text.Message
	value func(l Locale, stored string) (words string, known bool)
}

var detailColumns = map[string]detailColumn{
	"name":             {text.ColumnName, quotedValue},
	"total_quantity":   {text.ColumnSeats, numberValue},
	"issued_count":     {text.ColumnIssued, numberValue},
	"apply_opens_at":   {text.ColumnOpens, timeValue},
	"apply_closes_at":  {text.ColumnCloses, timeValue},
	"door_shut_at":     {text.DetailShutAt, timeValue},
	"finalised_at":     {text.ColumnFinalisedAt, timeValue},
	"expires_at":       {text.ColumnValidUntil, timeValue},
	"cutoff":           {text.ColumnCutoff, timeValue},
	"status":           {text.ColumnStatus, wordValue},
	"cadence":          {text.ColumnCadence, cadenceValue},
	"frozen":           {text.ColumnFrozen, boolValue},
	"campaign_id":      {text.ColumnCampaign, idValue},
	"line_limit":       {text.ColumnLineLimit, idValue},
	"validity_days":    {text.ColumnValidity, daysValue},
	"discount_won":     {text.ColumnDiscount, wonValue},
	"discount_percent": {text.DetailPercent, percentValue},
	"discount_max_won": {text.DetailMaxDiscount, wonValue},
	"minimum_won":      {text.DetailMinimum, wonValue},
	"issued":           {text.ColumnIssued, numberValue},
	"arrival":          {text.CSVArrival, arrivalValue},
}

func numberValue(_ Locale, stored string) (string, bool) {
	_, err := strconv.ParseInt(stored, 10, 64)
	return Grouped(stored), err == nil
}

func idValue(l Locale, stored string) (string, bool) {
	if stored == "0" {
		return l.Sprintf(text.DetailNone), true
	}
	_, err := strconv.ParseUint(stored, 10, 64)
	return stored, err == nil
}

func wonValue(l Locale, stored string) (string, bool) {
	n, err := strconv.ParseInt(stored, 10, 64)
	return l.Sprintf(text.DetailWon, Grouped(strconv.FormatInt(n, 10))), err == nil
}

func daysValue(l Locale, stored string) (string, bool) {
	n, err := strconv.ParseInt(stored, 10, 64)
	return l.Sprintf(text.Days, n), err == nil
}

func percentValue(_ Locale, stored string) (string, bool) {
	_, err := strconv.ParseInt(stored, 10, 64)
	return stored + " %", err == nil
}

func quotedValue(_ Locale, stored string) (string, bool) {
	name, err := strconv.Unquote(stored)
	return Printable(name), err == nil
}

func timeValue(l Locale, stored string) (string, bool) {
	if stored == "none" {
		return l.Sprintf(text.DetailNone), true
	}
	at, err := time.Parse(time.RFC3339Nano, stored)
	return l.Instant(at), err == nil
}

func arrivalValue(l Locale, stored string) (string, bool) {
	micros, err := strconv.ParseInt(stored, 10, 64)
	return l.Instant(time.UnixMicro(micros)), err == nil
}

func cadenceValue(l Locale, stored string) (string, bool) {
	m, known := map[string]text.Message{"NIGHTLY": text.CadenceNightly, "IMMEDIATE": text.CadenceImmediate}[stored]
	return l.Sprintf(m), known
}

func wordValue(l Locale, stored string) (string, bool) {
	word := text.Word(l.Language, stored)
	return word, word != ""
}

func boolValue(l Locale, stored string) (string, bool) {
	switch stored {
	case "true":
		return l.Sprintf(text.DetailOn), true
	case "false":
		return l.Sprintf(text.DetailOff), true
	default:
		return "", false
	}
}
