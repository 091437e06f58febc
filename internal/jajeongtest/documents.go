package jajeongtest

import (
	"regexp"
	"strings"
	"time"
)

var (
	documentsToday = time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC)
	documentsDate  = regexp.MustCompile(`20\d\d-\d\d(-\d\d)?`)
)

// windowsAhead are the days by which windows of coupons come later than in the documents, so that they are open.
const windowsAhead = 2

// DatedFor moves the dates of a documented command to today. The documents are written as on 21 November 2026. A month
// becomes the month of today.
func DatedFor(today time.Time, command string) string {
	if strings.HasPrefix(command, "settle coupon ") {
		today = today.AddDate(0, 0, windowsAhead)
	}
	return documentsDate.ReplaceAllStringFunc(command, func(given string) string {
		date, err := time.Parse(time.DateOnly, given)
		if err != nil {
			return today.Format("2006-01")
		}
		days := int(date.Sub(documentsToday).Hours()) / 24
		return today.AddDate(0, 0, days).Format(time.DateOnly)
	})
}
