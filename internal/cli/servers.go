package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/deployment"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/runmetrics"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
	shop "github.com/jajeong/jajeong/internal/users"
	"github.com/jajeong/jajeong/internal/verify"
)

type servers struct {
	*connect.Servers
	store *candidates.Store
	users *shop.Directory
	zone  *deployment.Zone

	handOverTime time.Duration
}

func (s *servers) verifier() *verify.Verifier {
	return &verify.Verifier{Store: s.store, Users: s.users, RestoreTime: verify.RestoreTime,
		HandOverTime: cmp.Or(s.handOverTime, candidates.HandOverTime)}
}

func (s *servers) ledger() *ledger.Ledger {
	return &ledger.Ledger{Store: s.store}
}

func (s *servers) restorer(now func() time.Time) *journal.Restorer {
	return &journal.Restorer{DB: mysqltx.New(s.MySQL), Line: s.store, Ledger: s.ledger(), Now: now,
		HandOverTime: s.handOverTime}
}

// zoneless are verbs that go on without the zone of the nights, and show times in UTC: those that find out what is
// wrong, and mend it.
type zoneless interface{ zoneless() }

func (*explainCmd) zoneless()    {}
func (*verifyCmd) zoneless()     {}
func (*policyShowCmd) zoneless() {}
func (*policySetCmd) zoneless()  {}

// open connects to MySQL and Redis, and reads the zone of the nights, in which p shows and reads times.
func (p *program) open(ctx context.Context) (*servers, error) {
	s, err := p.connect()
	if err != nil {
		return nil, err
	}
	if p.Zone, err = s.zone.Get(ctx); err != nil {
		p.Zone = time.UTC
		if _, may := p.selected.(zoneless); !may {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// connect does not ask the servers: a process that stays running may start while they are away.
func (p *program) connect() (*servers, error) {
	if p.shared != nil {
		return p.shared, nil
	}
	both, err := connect.Open(&p.MySQLSettings, connect.Settling, &p.RedisSettings, p.logger)
	if err != nil {
		return nil, err
	}
	both.RetryRefused()
	options := p.Candidates
	options.HandOverTime = p.HandOverTime
	store, err := candidates.NewStore(both.Redis, options)
	if err != nil {
		both.Close()
		return nil, err
	}
	return &servers{both, store, p.Settings.Directory(),
		&deployment.Zone{DB: both.MySQL, Now: p.Now, Catalog: catalog.Snapshot{Store: store}.Zone},
		p.HandOverTime}, nil
}

// sharedWith returns servers for others, who do not close the connections.
func (s *servers) sharedWith() *servers {
	shared := *s
	shared.Servers = s.Servers.Shared()
	return &shared
}

// openWriting is open for a verb that writes.
func (p *program) openWriting(ctx context.Context) (*servers, error) {
	s, err := p.open(ctx)
	return writable(ctx, s, err)
}

// writable returns an error if MySQL is set up in a way that refuses every write.
func writable(ctx context.Context, s *servers, err error) (*servers, error) {
	if err != nil {
		return nil, err
	}
	if connect.LogsStatements(ctx, s.MySQL) {
		s.Close()
		return nil, text.UsageErrorf(text.StatementsAreLogged)
	}
	return s, nil
}

// openToStay opens the servers for a verb that stays running. Its log says what it does: the level warn, which is the
// default of all verbs, would hide it.
func (p *program) openToStay(ctx context.Context) (*servers, error) {
	if p.LogLevel == "warn" {
		p.logger = (&connect.LogSettings{LogLevel: "info"}).Logger(p.Stderr)
	}
	connect.WarnOfRisks(p.parsed, &p.MySQLSettings, p.logger)
	s, err := p.connect()
	return writable(ctx, s, err)
}

// eachCoupon visits the given coupons; if none is given, all that are not finalised.
func (s *servers) eachCoupon(ctx context.Context, given []coupon.CouponID, visit func(id coupon.CouponID) error) error {
	ids := sortedOnce(given)
	if len(given) == 0 {
		var err error
		if ids, err = records.Unfinished(ctx, s.MySQL); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if ctx.Err() != nil {
			return settle.Stopped(ctx)
		}
		if err := visit(id); err != nil {
			return err
		}
	}
	return nil
}

func sortedOnce(ids []coupon.CouponID) []coupon.CouponID {
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

type settler struct {
	*settle.Settler
	*servers
}

// metricsOf returns the run metrics of a settler. openSettler must have made the settler.
func metricsOf(s *settle.Settler) *runmetrics.Metrics { return s.Observer.(*runmetrics.Metrics) }

func (p *program) openSettler(ctx context.Context) (*settler, error) {
	s, err := p.openWriting(ctx)
	if err != nil {
		return nil, err
	}
	return p.settlerOf(s)
}

func (p *program) settlerOf(s *servers) (*settler, error) {
	one, err := settle.New(settle.Config{
		DB: mysqltx.New(s.MySQL), Clock: s.store, Door: s.store, Line: s.store,
		Catalog: catalog.Snapshot{Store: s.store}, Auditor: s.ledger(), Journal: s.restorer(p.Now), Users: s.users,
		Observer: runmetrics.New(p.Now),
		Zone:     s.zone.Get, Now: p.Now, Logger: p.logger, Grace: p.Grace, Parallel: p.SettleParallel,
	})
	return &settler{one, s}, err
}
