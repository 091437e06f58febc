// Package deployment knows what all programs of a deployment must agree on: the time zone of the nights. It is one row
// of MySQL.
//
// `settle migrate` writes the row, and a new version of the policy changes it (package approval). Programs read it;
// none has a setting of its own for it. apply-api has it from its catalog, whose snapshot in Redis also has it for a
// run that cannot reach MySQL. A new zone may have nights that have passed: `settle serve` settles them within 15
// minutes. Issued coupons keep their end of validity.
package deployment

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// DefaultZone is the zone of a new deployment.
const DefaultZone = "Asia/Seoul"

const (
	readSQL   = "SELECT zone FROM deployment"
	changeSQL = "UPDATE deployment SET zone = ?"
)

// zoneForm is Area/City, as the IANA database names zones, or UTC. Other names, such as Local and localtime, are
// another zone on another machine, or none.
var zoneForm = regexp.MustCompile(`^(UTC|[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)+)$`)

// Load returns the zone of a name from a setting or a column.
func Load(setting, name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || !zoneForm.MatchString(name) {
		return nil, text.UsageErrorf(text.WrongTimeZone, setting, name)
	}
	return zone, nil
}

// ReadZone reads the zone from MySQL.
func ReadZone(ctx context.Context, q mysqltx.Querier) (*time.Location, error) {
	var name string
	err := q.QueryRowContext(ctx, readSQL).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, text.UsageErrorf(text.NoTimeZone)
	}
	if err != nil {
		return nil, mysqltx.Wrap(err, "read the time zone of the nights")
	}
	return Load("deployment.zone", name)
}

// Change writes another zone.
func Change(ctx context.Context, q mysqltx.Querier, zone string) error {
	_, err := q.ExecContext(ctx, changeSQL, zone)
	return mysqltx.Wrap(err, "change the time zone of the nights")
}

const (
	// fresh is as long as a change of a coupon takes to reach Redis.
	fresh = 5 * time.Second
	// readTimeout bounds a read of MySQL, so that time is left for Redis when MySQL hangs.
	readTimeout = 4 * time.Second
)

// Zone reads the zone of the nights, and remembers it for five seconds. It is safe for concurrent use.
type Zone struct {
	DB  *sql.DB
	Now func() time.Time // only durations are measured with it
	// Catalog is the zone in Redis, which counts while MySQL is away; nil if Redis has none. nil: there is no Redis.
	Catalog func(ctx context.Context) (*time.Location, error)

	known atomic.Pointer[known]
}

type known struct {
	zone *time.Location
	at   time.Time
}

func (z *Zone) Get(ctx context.Context) (*time.Location, error) {
	if last := z.known.Load(); last != nil && z.Now().Sub(last.at) < fresh {
		return last.zone, nil
	}
	zone, err := z.read(ctx)
	if err != nil {
		return nil, err
	}
	z.known.Store(&known{zone, z.Now()})
	return zone, nil
}

func (z *Zone) read(ctx context.Context) (*time.Location, error) {
	// A run that is told to stop says what it left.
	inTime, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	var zone *time.Location
	err := mysqltx.NewBrief(z.DB).OnConn(inTime, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		zone, err = ReadZone(ctx, q)
		return err
	})
	if err == nil || z.Catalog == nil || errors.As(err, new(*text.UsageError)) {
		return zone, err
	}
	late, cancelLate := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancelLate()
	cached, unread := z.Catalog(late)
	if unread != nil || cached == nil {
		return nil, errors.Join(err, unread)
	}
	return cached, nil
}
