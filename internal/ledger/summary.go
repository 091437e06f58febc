package ledger

// Summary is the result of a check of several coupons.
type Summary struct {
	Violated  bool       `json:"violated"`
	Coupons   []*Verdict `json:"coupons"`
	Strays    []Finding  `json:"strays"`              // of no existing coupon; looked for only when every coupon is checked
	Unchecked []string   `json:"unchecked,omitempty"` // errors, a line per coupon
	Total     Total      `json:"total"`
}

// Total adds up coupons.
type Total struct {
	Checked     int     `json:"checked"`
	Seats       int64   `json:"seats"`
	Coupons     int64   `json:"coupons"`
	Account     Account `json:"account"`
	Gap         int64   `json:"gap"`
	AuditEvents uint64  `json:"auditEvents"`
}

// Add adds a coupon.
func (s *Summary) Add(v *Verdict) {
	s.Coupons = append(s.Coupons, v)
	t := &s.Total
	t.Checked++
	t.Seats += v.TotalQuantity
	t.Coupons += v.Coupons
	t.Gap += v.Gap
	t.AuditEvents += v.AuditHead.Seq
	a, b := &t.Account, v.Account
	a.Accepted += b.Accepted
	a.Waiting += b.Waiting
	a.UnderReview += b.UnderReview
	a.Issued += b.Issued
	a.Outcomes += b.Outcomes
	a.Twice += b.Twice
	a.WrittenOff += b.WrittenOff
	a.AskedAgain += b.AskedAgain
	a.LastArrival = max(a.LastArrival, b.LastArrival)
}

// Violations counts the findings that are no warnings, by invariant.
func (s *Summary) Violations() map[int]int {
	found := map[int]int{}
	add := func(findings []Finding) {
		for _, f := range findings {
			if !f.Warning {
				found[f.Invariant]++
			}
		}
	}
	for _, v := range s.Coupons {
		add(v.Findings)
	}
	add(s.Strays)
	return found
}
