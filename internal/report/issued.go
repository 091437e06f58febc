package report

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// UserCoupons has the issued coupons by what has become of them at Report.AsOf. They are those of the whole coupon, and
// do not depend on the period. Issued is the sum of Usable, Reserved, Used, Expired and Revoked.
type UserCoupons struct {
	Issued   int64 `json:"issued"`
	ByHand   int64 `json:"byHand"`   // how many of Issued were given by hand
	Usable   int64 `json:"usable"`   // includes those whose reservation ran out, unless they have expired
	Reserved int64 `json:"reserved"` // those with a live reservation
	Used     int64 `json:"used"`
	Expired  int64 `json:"expired"` // those that expired unused
	Revoked  int64 `json:"revoked"`

	// UsedWon is the sum of the discounts that were given. The others are limits: the most that so many coupons can
	// give.
	UsedWon    *big.Int `json:"usedWon"`
	OpenWon    *big.Int `json:"openWon"` // the most that Usable and Reserved can give: the open liability
	ExpiredWon *big.Int `json:"expiredWon"`
	RevokedWon *big.Int `json:"revokedWon"`
}

func noUserCoupons() UserCoupons {
	return UserCoupons{UsedWon: new(big.Int), OpenWon: new(big.Int), ExpiredWon: new(big.Int), RevokedWon: new(big.Int)}
}

func (u *UserCoupons) numbers() []*int64 {
	return []*int64{&u.Issued, &u.ByHand, &u.Usable, &u.Reserved, &u.Used, &u.Expired, &u.Revoked}
}

func (u *UserCoupons) won() []**big.Int {
	return []**big.Int{&u.UsedWon, &u.OpenWon, &u.ExpiredWon, &u.RevokedWon}
}

func (u *UserCoupons) add(b UserCoupons) {
	for i, n := range b.numbers() {
		*u.numbers()[i] += *n
	}
	for i, n := range b.won() {
		sum := *u.won()[i]
		sum.Add(sum, *n)
	}
}

// ofState returns the count of a state of coupon.StateAt.
func (u *UserCoupons) ofState(state coupon.UserCouponStatus) *int64 {
	return map[coupon.UserCouponStatus]*int64{coupon.CouponIssued: &u.Usable, coupon.CouponReserved: &u.Reserved,
		coupon.CouponUsed:    &u.Used,
		coupon.CouponExpired: &u.Expired, coupon.CouponRevoked: &u.Revoked}[state]
}

// CampaignSum has the sums of the coupons of one campaign that the report covers.
type CampaignSum struct {
	CampaignID uint64 `json:"campaignId"`
	Coupons    int    `json:"coupons"`
	Counts

	percent bool // one of the coupons has a percentage, so ValueWon is a limit
}

const (
	// asOfSQL reads a table, because only that begins the snapshot of its transaction.
	asOfSQL = "SELECT UTC_TIMESTAMP(6), (SELECT MAX(id) FROM coupon)"

	// spansSQL reads an index alone.
	spansSQL = "SELECT coupon_id, MIN(id), MAX(id), COUNT(*) FROM user_coupon WHERE coupon_id IN %s GROUP BY coupon_id"

	countedColumns = `
SELECT u.coupon_id, u.status, COALESCE(o.reserved_until > ?, FALSE), u.expires_at <= ?, u.run_id IS NULL, COUNT(*),
       CAST(COALESCE(SUM(IF(o.state = 'USED', o.discount_won, 0)), 0) AS CHAR)
FROM user_coupon u `
	countedRows = `LEFT JOIN coupon_order o ON o.order_id = u.order_id
WHERE u.coupon_id IN %s AND u.id BETWEEN ? AND ? GROUP BY 1, 2, 3, 4, 5`

	userCouponsSQL = countedColumns + countedRows

	// denseSQL reads the rows in the order in which they are stored. A million take half the time.
	denseSQL = countedColumns + "FORCE INDEX (PRIMARY) " + countedRows
	maxSpan  = 4 // denseSQL reads at most so many rows for each one of the coupons

	// rowsTogether is how many issued coupons of small coupons one statement counts.
	rowsTogether = 20_000
)

// addUserCoupons counts the issued coupons of all coupons of the report in one snapshot, and adds up the campaigns.
func (r *Reporter) addUserCoupons(ctx context.Context, report *Report) error {
	err := mysqltx.Read(ctx, r.DB, sql.LevelRepeatableRead, func(tx *sql.Tx) error {
		var last sql.NullInt64
		if err := tx.QueryRowContext(ctx, asOfSQL).Scan(&report.AsOf, &last); err != nil {
			return fmt.Errorf("read the clock: %w", err)
		}
		for page := range slices.Chunk(report.Coupons, couponsPerPage) {
			all, err := readSpans(ctx, tx, page)
			for _, s := range all {
				if err == nil {
					err = s.readUserCoupons(ctx, tx, report.AsOf)
				}
			}
			if err != nil {
				return err
			}
		}
		for i := range report.Coupons {
			report.Coupons[i].addAmounts()
			report.Total.UserCoupons.add(report.Coupons[i].UserCoupons)
		}
		return nil
	})
	report.addCampaigns()
	return err
}

// span is coupons whose issued coupons are counted together.
type span struct {
	coupons        map[coupon.CouponID]*Coupon
	first, last, n int64 // lowest and highest id, and the number of the rows of user_coupon
}

// readSpans returns the coupons with issued coupons.
func readSpans(ctx context.Context, tx *sql.Tx, page []Coupon) (all []span, err error) {
	ids, byID := make([]any, len(page)), make(map[coupon.CouponID]*Coupon, len(page))
	for i := range page {
		ids[i], byID[page[i].Coupon] = page[i].Coupon, &page[i]
	}
	err = mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var id coupon.CouponID
		var one span
		if err := rows.Scan(&id, &one.first, &one.last, &one.n); err != nil {
			return err
		}
		if end := len(all) - 1; end >= 0 && all[end].n+one.n <= rowsTogether {
			before := all[end]
			one = span{before.coupons, min(before.first, one.first), max(before.last, one.last), before.n + one.n}
			all = all[:end]
		} else {
			one.coupons = map[coupon.CouponID]*Coupon{}
		}
		one.coupons[id] = byID[id]
		all = append(all, one)
		return nil
	}, fmt.Sprintf(spansSQL, mysqltx.In(len(ids))), ids...)
	return all, mysqltx.Wrap(err, "count issued coupons")
}

func (s span) readUserCoupons(ctx context.Context, tx *sql.Tx, now time.Time) error {
	query := userCouponsSQL
	if s.last-s.first < maxSpan*s.n {
		query = denseSQL
	}
	args := []any{now.UTC(), now.UTC()}
	for id := range s.coupons {
		args = append(args, id)
	}
	err := mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var id coupon.CouponID
		var status coupon.UserCouponStatus
		var live, over, byHand bool
		var n int64
		var used string
		if err := rows.Scan(&id, &status, &live, &over, &byHand, &n, &used); err != nil {
			return err
		}
		u := &s.coupons[id].UserCoupons
		until, expires := now, now // coupon.StateAt decides, by instants that compare with now like those of the rows
		if live {
			until = now.Add(time.Microsecond)
		}
		if !over {
			expires = now.Add(time.Microsecond)
		}
		*u.ofState(coupon.StateAt(status, until, expires, now)) += n
		if u.Issued += n; byHand {
			u.ByHand += n
		}
		won, known := new(big.Int).SetString(used, 10)
		if !known {
			return fmt.Errorf("the sum %q is no number", used)
		}
		u.UsedWon.Add(u.UsedWon, won)
		return nil
	}, fmt.Sprintf(query, mysqltx.In(len(s.coupons))), append(args, s.first, s.last)...)
	return mysqltx.Wrap(err, "count issued coupons")
}

// addAmounts adds the limits of what is open, expired and revoked.
func (c *Coupon) addAmounts() {
	u, most := &c.UserCoupons, big.NewInt(c.Most())
	u.OpenWon.Mul(most, big.NewInt(u.Usable+u.Reserved))
	u.ExpiredWon.Mul(most, big.NewInt(u.Expired))
	u.RevokedWon.Mul(most, big.NewInt(u.Revoked))
}

func (r *Report) addCampaigns() {
	for _, c := range r.Coupons {
		if c.CampaignID == 0 {
			continue
		}
		at, found := slices.BinarySearchFunc(r.Campaigns, c.CampaignID,
			func(s CampaignSum, id uint64) int { return cmp.Compare(s.CampaignID, id) })
		if !found {
			r.Campaigns = slices.Insert(r.Campaigns, at, CampaignSum{CampaignID: c.CampaignID, Counts: noCounts()})
		}
		sum := &r.Campaigns[at]
		sum.Coupons++
		sum.percent = sum.percent || c.DiscountPercent > 0
		sum.Counts.add(c.Counts)
		sum.UserCoupons.add(c.UserCoupons)
	}
}

// userCouponFigures are the columns of UserCoupons, in the order of numbers and won.
var userCouponFigures = []struct{ column, csv text.Message }{
	{text.ColumnIssued, text.CSVUserCoupons},
	{text.ColumnIssuedByHand, text.CSVByHand},
	{text.ColumnUsable, text.CSVUsable},
	{text.ColumnReserved, text.CSVReserved},
	{text.ColumnUsed, text.CSVUsed},
	{text.ColumnExpired, text.CSVExpired},
	{text.ColumnRevoked, text.CSVRevoked},
	{text.ColumnUsedWon, text.CSVUsedWon},
	{text.ColumnOpenWon, text.CSVOpenWon},
	{text.ColumnExpiredWon, text.CSVExpiredWon},
	{text.ColumnRevokedWon, text.CSVRevokedWon},
}

func (u UserCoupons) values() (all []*big.Int) {
	for _, n := range u.numbers() {
		all = append(all, big.NewInt(*n))
	}
	for _, n := range u.won() {
		all = append(all, *n)
	}
	return all
}

func (u UserCoupons) cells() (cells []cell) {
	for _, n := range u.values() {
		cells = append(cells, cell{Text: output.Grouped(n.String()), Number: true})
	}
	return cells
}

// grid is a table with a title.
type grid struct {
	Title         string
	Header, Total []cell
	Rows          [][]cell
}

// grids are the tables below the table of applications: issued coupons, and the sums of campaigns.
func (e Edition) grids() (grids []grid) {
	var figures []cell
	for _, f := range userCouponFigures {
		figures = append(figures, cell{Text: f.column.In(e.Language), Number: true})
	}
	column := func(m text.Message, number bool) cell { return cell{Text: m.In(e.Language), Number: number} }
	issued := grid{Title: e.Sprintf(text.ReportUserCoupons, e.AsOf),
		Header: slices.Concat([]cell{column(text.ColumnCoupon, false), column(text.ColumnName, false)}, figures),
		Total: slices.Concat([]cell{column(text.Total, false), {Text: e.Sprintf(text.CouponCount, len(e.Coupons))}},
			e.Report.Total.UserCoupons.cells())}
	for _, c := range e.Coupons {
		named := []cell{{Text: c.Coupon.String()}, {Text: output.Printable(c.Name)}}
		issued.Rows = append(issued.Rows, slices.Concat(named, c.UserCoupons.cells()))
	}
	campaigns := grid{Title: e.Sprintf(text.ReportCampaigns),
		Header: slices.Concat([]cell{column(text.ColumnCampaign, false), column(text.ColumnCoupons, true),
			column(text.ColumnApplications, true), column(text.ColumnValueWon, true)}, figures)}
	for _, s := range e.Campaigns {
		sums := []cell{{Text: fmt.Sprint(s.CampaignID)}, {Text: fmt.Sprint(s.Coupons), Number: true},
			{Text: output.Grouped(fmt.Sprint(s.Applications)), Number: true},
			{Text: limit(s.ValueWon, s.percent), Number: true}}
		campaigns.Rows = append(campaigns.Rows, slices.Concat(sums, s.UserCoupons.cells()))
	}
	if len(issued.Rows) > 0 {
		grids = append(grids, issued)
	}
	if len(campaigns.Rows) > 0 && e.Campaign == 0 { // with --campaign, the total is that of the campaign
		grids = append(grids, campaigns)
	}
	return grids
}

// limit shows an amount, which is a limit if it counts coupons with a percentage.
func limit(won *big.Int, percent bool) string {
	if percent {
		return "≤ " + output.Grouped(won.String())
	}
	return output.Grouped(won.String())
}
