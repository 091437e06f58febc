package settle

import (
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

func TestAdviceSaysWhatToDo(t *testing.T) {
	t.Parallel()
	require.Equal(t, text.AdviseMigrate, Advice(&mysql.MySQLError{Number: 1146}))
	require.Equal(t, text.AdviseGrants, Advice(&mysql.MySQLError{Number: 1045}))
	require.Equal(t, text.AdviseRunAgain, Advice(driver.ErrBadConn))
	require.Empty(t, Advice(errors.New("2 rows, want 1")))
	require.Empty(t, Advice(setupError("no such coupon")))
}

func TestAnUnknownCommitIsNotReportedAsBusy(t *testing.T) {
	t.Parallel()
	r := &Result{}
	r.fail(&mysqltx.CommitUnknown{Err: &mysql.MySQLError{Number: 1205}})
	require.Equal(t, coupon.Failed, r.Status)
	require.NotContains(t, r.Error, "nothing was moved")
	r.fail(&mysql.MySQLError{Number: 1205})
	require.Equal(t, coupon.Busy, r.Status)
}
