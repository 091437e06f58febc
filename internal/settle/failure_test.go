package settle

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/stretchr/testify/require"
)

func TestEveryErrorNumberHasItsClass(t *testing.T) {
	t.Parallel()
	for want, numbers := range map[class][]uint16{
		transient: {1205, 3572, 1467, 1213, 1020, 3101},
		away:      {1047, 1053, 1927, 3032, 4031, 1040, 1203},
		readOnly:  {1290, 1792, 1836},
		duplicate: {1062},
		badRow:    {1264, 1292, 1366, 1406, 1644},
		violated:  {3819, 4025},
		fatal:     {1044, 1045, 1054, 1142, 1146, 1206, 1, 65535},
	} {
		for _, number := range numbers {
			err := fmt.Errorf("insert: %w", &mysql.MySQLError{Number: number})
			require.Equal(t, want, classifyError(err), number)
		}
	}
	for _, broken := range []error{driver.ErrBadConn, mysql.ErrInvalidConn, &connectionError{errors.New("dial tcp: refused")}} {
		require.Equal(t, away, classifyError(fmt.Errorf("lock: %w", broken)))
	}
	require.Equal(t, transient, classifyError(errors.New("redis: connection refused")), "of another server")
}

func TestWhatAnErrorMeansToWhoeverStartedTheRun(t *testing.T) {
	t.Parallel()
	for number, want := range map[uint16]coupon.Class{1213: coupon.Infrastructure, 1467: coupon.Infrastructure, 1290: coupon.Infrastructure, 1062: coupon.Invariant,
		1146: coupon.Setup, 1644: coupon.Setup, 3819: coupon.Invariant, 4025: coupon.Invariant} {
		require.Equal(t, want, ErrorClass(fmt.Errorf("x: %w", &mysql.MySQLError{Number: number})), number)
	}
	require.Equal(t, coupon.Infrastructure, ErrorClass(errors.New("connection refused")))
	require.Equal(t, coupon.Setup, ErrorClass(fmt.Errorf("x: %w", setupError("no such coupon"))))
	require.Contains(t, Advice(&mysql.MySQLError{Number: 1146}), "settle migrate")
	require.Contains(t, Advice(&mysql.MySQLError{Number: 1045}), "MYSQL_DSN")
	require.Contains(t, Advice(driver.ErrBadConn), "safe to run again")
	require.Empty(t, Advice(setupError("no such coupon")))
}

func TestBackoffGrowsAndStaysBounded(t *testing.T) {
	t.Parallel()
	for attempt := 1; attempt <= attempts; attempt++ {
		for range 100 {
			d := backoff(attempt)
			require.GreaterOrEqual(t, d, min(firstBackoff<<(attempt-1), longestBackoff)/2)
			require.Less(t, d, longestBackoff)
		}
	}
}
