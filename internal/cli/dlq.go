package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/review"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/userlist"
	"github.com/jajeong/jajeong/internal/verb"
)

type dlqCmd struct {
	List  dlqListCmd  `cmd:""`
	Retry dlqRetryCmd `cmd:""`
	Drop  dlqDropCmd  `cmd:""`
}

type dlqListCmd struct {
	Coupon []coupon.CouponID `placeholder:"ID"`
	Cause  []string          `enum:"${causes}" placeholder:"CAUSE"`
	User   []string          `placeholder:"USER" bytes:""`
	List   bool
	Output string `enum:"table,json,csv" default:"table" form:"-"`
}

func (*dlqListCmd) Declare() verb.Declaration {
	return verb.Declaration{Right: signin.SeeLists, API: "GET /v1/dlq"}
}

// reviewList is the JSON of settle dlq list, and of the previews of retry and drop. It has groups of entries, or single
// entries with --list or --user.
type reviewList struct {
	Digest  string             `json:"digest,omitempty"` // digest of a preview, as --expect-digest takes it
	Groups  []history.DLQGroup `json:"groups,omitempty"`
	Entries []history.DLQEntry `json:"entries,omitempty"`
	Total   int                `json:"total"`

	single bool
	groups history.DLQGroups
	now    time.Time // time on the Redis clock
}

func newReviewList(single bool) *reviewList {
	return &reviewList{single: single, groups: history.DLQGroups{}}
}

// maxListed bounds the entries in memory. To see more, an operator asks by --coupon, --cause or --user.
const maxListed = 200_000

func (l *reviewList) add(e history.DLQEntry) {
	l.Total++
	if !l.single {
		l.groups.Add(e)
	} else if len(l.Entries) < maxListed {
		l.Entries = append(l.Entries, e)
	}
}

func (c *dlqListCmd) run(ctx context.Context, p *program) (err error) {
	selection, list := review.Selection{Coupons: c.Coupon, Users: c.User, Causes: c.Cause},
		newReviewList(c.List || len(c.User) > 0)
	if list.now, err = p.eachUnderReview(ctx, selection, list.add); err != nil {
		return err
	}
	return p.printReview(list, c.Output)
}

func (p *program) printReview(list *reviewList, format string) error {
	list.Groups = list.groups.Sorted()
	if list.single && list.Total > maxListed {
		p.warn(text.ListIsCut, list.Total, maxListed)
	}
	view := p.view()
	switch {
	case format == "json":
		return output.JSON(p.Stdout, list)
	case format == "csv" && list.single:
		return view.DLQEntriesCSV(list.Entries)
	case format == "csv":
		return view.DLQGroupsCSV(list.Groups)
	case list.Total == 0:
		view.Println(text.NothingUnderReview)
		return nil
	case list.single:
		view.DLQEntries(list.Entries)
	default:
		view.DLQGroups(list.Groups, list.now)
	}
	if list.Digest != "" {
		output.Digest(p.Stdout, list.Digest)
	}
	return nil
}

// eachUnderReview visits the selected DLQ entries. now is the Redis time.
func (p *program) eachUnderReview(ctx context.Context, of review.Selection,
	visit func(history.DLQEntry)) (now time.Time, err error) {
	s, err := p.open(ctx)
	if err != nil {
		return now, err
	}
	defer s.Close()
	if now, err = s.store.Now(ctx); err != nil {
		return now, err
	}
	err = mysqltx.New(s.MySQL).OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		for _, id := range of.Coupons {
			if _, err := (history.Reader{DB: q}).Coupon(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return now, err
	}
	return now, s.eachCoupon(ctx, of.Coupons, func(id coupon.CouponID) error {
		return history.EachDLQEntry(ctx, s.store, id, of.Users, func(e history.DLQEntry) {
			if of.HasCause(e) {
				visit(e)
			}
		})
	})
}

// reviewFlags are the flags that choose DLQ entries of one coupon and name the operator.
type reviewFlags struct {
	Coupon        coupon.CouponID `required:"" placeholder:"ID"`
	User          []string        `placeholder:"USER" bytes:""`
	Cause         []string        `enum:"${causes}" placeholder:"CAUSE"`
	File          string          `placeholder:"FILE" form:"-"`
	DryRun        bool            `xor:"approval" form:"-"`
	operatorFlags `embed:""`
	Output        string `enum:"table,json" default:"table" form:"-"`

	listed string // digest of the list in the file
}

func (d *reviewFlags) Validate() error {
	return errors.Join(d.operatorFlags.checkUnless(d.DryRun),
		about("--cause", refuse(len(d.User) > 0 && len(d.Cause) > 0 || d.File != "" && len(d.User)+len(d.Cause) > 0,
			text.UserOrCause)))
}

// readFile takes the users of --file.
func (d *reviewFlags) readFile(p *program) error {
	if d.File == "" {
		return nil
	}
	list, err := p.readList(d.File)
	if err != nil {
		return p.printRefusal(err)
	}
	d.listed = list.Digest()
	for _, user := range list.Users {
		d.User = append(d.User, user.Member())
	}
	return nil
}

// fromStdin is the name of a file that is standard input.
const fromStdin = "-"

// readList reads a list of users.
func (p *program) readList(name string) (userlist.List, error) {
	from := p.Stdin
	if name != fromStdin {
		file, err := os.Open(name)
		if err != nil {
			return userlist.List{}, text.UsageErrorf(text.ListUnread, err)
		}
		defer file.Close()
		from = file
	}
	list, err := userlist.Read(from)
	if err == nil && list.Duplicates > 0 {
		p.warn(text.ListDuplicates, list.Duplicates)
	}
	return list, err
}

// order returns the operator's order. With --user, the run fails if one of the users has left the DLQ.
func (d *reviewFlags) order(p *program) settle.Order {
	return settle.Order{Operator: d.Operator, Reason: d.Reason, Person: p.person(d.operatorFlags),
		MayBeGone: len(d.User) == 0}
}

func (d *reviewFlags) selection() review.Selection {
	return review.Selection{Coupons: []coupon.CouponID{d.Coupon}, Users: d.User, Causes: d.Cause}
}

// preview prints the chosen entries with their digest.
func (d *reviewFlags) preview(ctx context.Context, p *program, digestOf func([]review.Entry) string) (err error) {
	var chosen []review.Entry
	selection, list := d.selection(), newReviewList(len(d.User) > 0)
	list.now, err = p.eachUnderReview(ctx, selection, func(e history.DLQEntry) {
		list.add(e)
		chosen = append(chosen, review.EntryOf(e))
	})
	if err != nil {
		return err
	}
	list.Digest = digestOf(chosen)
	return p.printReview(list, d.Output)
}

func (d *reviewFlags) retry(p *program) review.Retry {
	return review.Retry{
		Selection: d.selection(),
		Each: func(ctx context.Context, of review.Selection, visit func(history.DLQEntry)) error {
			_, err := p.eachUnderReview(ctx, of, visit)
			return err
		},
	}
}

// noRun returns the report if no DLQ entry has one of the causes: no run was needed.
func noRun(trigger coupon.Trigger) *settle.Report {
	return &settle.Report{Trigger: trigger, Status: coupon.RunSucceeded, Coupons: []settle.Result{}}
}

type dlqRetryCmd struct {
	reviewFlags `embed:""`
	pinFlags    `embed:""`
	Canary      int    `placeholder:"N"`
	Cutoff      string `enum:"midnight,now" default:"midnight"`
}

func (*dlqRetryCmd) Declare() verb.Declaration {
	return verb.Declaration{Title: text.ConsoleRetry, On: verb.Holder, RightOf: ofOne,
		API: "POST /v1/coupons/{coupon}/dlq/retry"}
}

// ofOne needs less for the entry of one user than for many, or for the whole line.
func ofOne(v verb.Values) signin.Right {
	if coupon.ParseUserID(v["user"]) > 0 && v["cause"] == "" && v["cutoff"] != cutoffNow {
		return signin.ReviewPerson
	}
	return signin.Settle
}

func (c *dlqRetryCmd) Validate() error {
	return errors.Join(c.reviewFlags.Validate(), about("--canary", refuse(c.Canary < 0, text.WrongCanary, c.Canary)))
}

func (c *dlqRetryCmd) run(ctx context.Context, p *program) error {
	if err := c.readFile(p); err != nil {
		return err
	}
	if c.DryRun {
		return c.preview(ctx, p, review.Digest)
	}
	var done struct { // the JSON of a retry with --canary
		Runs []*settle.Report `json:"runs"`
	}
	done.Runs = []*settle.Report{}
	retry := c.retry(p)
	retry.Canaries, retry.Expect = c.Canary, string(c.ExpectDigest)
	retry.Run = func(ctx context.Context, canaries bool, members []string) (*settle.Report, error) {
		order := c.order(p)
		order.CutoffNow = c.Cutoff == cutoffNow
		if canaries {
			order.Canaries = members
		}
		report, err := p.watch(ctx, func(settler *settle.Settler) (*settle.Report, error) {
			return settler.Retry(ctx, c.Coupon, order, members)
		})
		if report != nil {
			done.Runs = append(done.Runs, report)
			if err = p.outcome(c.Output, report, err); report.Total.Issued > 0 {
				p.warn(text.RetriedAndIssued, report.Total.Issued, c.Coupon)
			}
		}
		return report, err
	}
	retry.Done = func(round review.Round) { p.errors().Round(round, c.Coupon) }
	err := retry.Do(ctx)
	switch {
	case errors.Is(err, review.ErrNoEntry):
		p.warn(text.NoSuchCause)
		if err = nil; c.Canary == 0 {
			done.Runs = append(done.Runs, noRun(coupon.DLQRetry))
		}
	case errors.Is(err, review.ErrCanariesFailed):
		err = exitError(exitInfrastructure) // some entries were not tried; running again is safe
	}
	switch {
	case c.Output != "json" || err != nil && len(done.Runs) == 0:
		return err
	case c.Canary > 0:
		return errors.Join(err, output.JSON(p.Stdout, done))
	default:
		return errors.Join(err, output.JSON(p.Stdout, done.Runs[0]))
	}
}

type dlqDropCmd struct {
	reviewFlags   `embed:""`
	approvalFlags `embed:""`
	Yes           bool `form:"-"`
}

func (*dlqDropCmd) Declare() verb.Declaration {
	return verb.Declaration{Title: text.ConsoleDrop, On: verb.Holder, RightOf: ofOne,
		Actions: []approval.Action{approval.Drop}, API: "POST /v1/coupons/{coupon}/dlq/drop"}
}

func (c *dlqDropCmd) Validate() error {
	return errors.Join(about("--cause", refuse(len(c.User)+len(c.Cause) == 0 && c.File == "", text.UserOrCauseMissing)),
		refuse(c.Ask && len(c.User) > 1, text.AskForOneUser), c.reviewFlags.Validate())
}

func (c *dlqDropCmd) run(ctx context.Context, p *program) error {
	if err := c.readFile(p); err != nil {
		return err
	}
	if c.DryRun {
		return c.preview(ctx, p, func(chosen []review.Entry) string { return c.plan(chosen).Digest() })
	}
	members := c.User
	if len(c.Cause) > 0 || c.listed != "" || c.Ask {
		chosen, err := c.retry(p).Chosen(ctx)
		if err != nil {
			return err
		}
		if len(chosen) == 0 && len(c.Cause) > 0 {
			p.warn(text.NoSuchCause)
			if c.Output == "json" {
				err = output.JSON(p.Stdout, noRun(coupon.Manual))
			}
			return err
		}
		if c.Ask {
			return c.askApproval(ctx, p, chosen)
		}
		// There may be more entries of a cause than the operator expects.
		may, err := p.confirm(ctx, c.Yes,
			text.UsageErrorf(text.DropNeedsYes, len(chosen)), p.Sprintf(text.AskDrop, len(chosen), c.Coupon))
		if err != nil || !may {
			return err
		}
		if len(c.Cause) > 0 { // else the run refuses users who are not under review
			members = review.Users(chosen)
		}
	}
	order := c.order(p)
	order.Chosen, order.Expect, order.Approvals = c.chosenBy(), c.expect(c.Coupon), c.approvals(c.Coupon)
	return p.settle(ctx, c.Output, func(settler *settle.Settler) (report *settle.Report, err error) {
		if report, err = settler.Drop(ctx, c.Coupon, order, members); report != nil && report.Total.Rejected > 0 {
			p.warn(text.Dropped, report.Total.Rejected, c.Coupon)
		}
		return report, err
	})
}

func (c *dlqDropCmd) plan(chosen []review.Entry) approval.Plan {
	return settle.DropPlan(c.Coupon, c.chosenBy(), review.Applications(chosen))
}

// chosenBy are the flags that choose the entries.
func (c *dlqDropCmd) chosenBy() map[string]string {
	switch {
	case len(c.Cause) > 0:
		return map[string]string{"cause": strings.Join(c.Cause, ",")}
	case c.listed != "":
		return map[string]string{"file": c.listed}
	}
	return map[string]string{"user": strings.Join(c.User, ",")}
}

func (c *dlqDropCmd) askApproval(ctx context.Context, p *program, chosen []review.Entry) error {
	s, err := p.openWriting(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return p.requestApproval(ctx, s, c.plan(chosen), c.pinFlags, c.operatorFlags, c.Output)
}
