package connect_test

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	migrations "github.com/jajeong/jajeong/sql"
)

// A migration of a large table says how the server has to do it: settlements go on meanwhile, and what would copy the
// table is refused. A soak has 14 million issued coupons, and a server that caches a tenth of them.
func TestAlter_OfALargeTable(t *testing.T) {
	t.Parallel()
	const seats = 400
	nights := 500
	if testenv.Soaking() {
		nights = 35_000
	}
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{Args: []string{"--innodb-buffer-pool-size=256M"}})
	d := jajeongtest.NewWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)})
	past := d.AddFinished(seats, jajeongtest.Between[coupon.UserID](1, seats)...)
	for left := nights; left > 0; left -= 500 { // a transaction for each
		d.AddHistory(jajeongtest.History{Of: past, Nights: 500, PerNight: 1, Before: nights - left})
	}
	rows := d.Number("SELECT COUNT(*) FROM user_coupon")
	require.EqualValues(t, (nights+1)*seats, rows)

	initial, err := migrations.Files.ReadFile("00001_initial.sql")
	require.NoError(t, err)
	files := fstest.MapFS{"00001_initial.sql": {Data: initial}}
	db, err := (&connect.MySQLSettings{MySQLDSN: d.Admin.MySQLDSN}).Open(connect.Migrating, zap.NewNop())
	require.NoError(t, err)
	defer db.Close()
	apply := func(name, change string) error {
		files[name] = &fstest.MapFile{Data: []byte("-- +goose Up\nALTER TABLE user_coupon " + change + ";\n")}
		_, err := connect.Apply(t.Context(), db, files, nil)
		return err
	}
	next := coupon.UserID(seats)
	for _, step := range [][2]string{
		{"00002_source.sql", "ADD COLUMN source VARCHAR(20) NOT NULL DEFAULT 'settle', ALGORITHM=INSTANT"},
		{"00003_issued.sql", "ADD KEY user_coupon_issued (issued_at), ALGORITHM=INPLACE, LOCK=NONE"},
	} {
		name, change := step[0], step[1]
		reader, err := d.DB.Begin() // the change has to wait for it, and to give way meanwhile
		require.NoError(t, err)
		_, err = reader.Exec("SELECT COUNT(*) FROM user_coupon WHERE id = 0")
		require.NoError(t, err)
		began, ended := time.Now(), make(chan error, 1)
		go func() { ended <- apply(name, change) }()
		testenv.Eventually(t, "the change waits", func() bool {
			return d.Number("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE u%'") > 0
		})
		settled := 0
		for working := true; working; settled++ {
			next++
			require.Equal(t, 1, d.SettleNow(d.AddQueue(1, next)).Coupons[0].Issued)
			if settled == 0 {
				require.NoError(t, reader.Rollback())
			}
			select {
			case err := <-ended:
				require.NoError(t, err, change)
				working = false
			default:
			}
		}
		t.Logf("%s: %s for %d rows; %d settlements until its end", change, time.Since(began).Round(time.Millisecond), rows,
			settled)
		// A process that died before it recorded the change.
		d.Exec("DELETE FROM jajeong_db_version ORDER BY id DESC LIMIT 1")
		require.NoError(t, apply(name, change))
		require.EqualValues(t, step[0][4]-'0', d.Number("SELECT MAX(version_id) FROM jajeong_db_version"))
	}
	require.ErrorContains(t, apply("00004_position.sql",
		"MODIFY COLUMN position BIGINT UNSIGNED NOT NULL DEFAULT 0, ALGORITHM=INPLACE, LOCK=NONE"), "ALGORITHM=COPY")
	require.Equal(t, []string{"position", "source"}, jajeongtest.Column[string](d, `
		SELECT column_name FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name = 'user_coupon'
		AND (column_name = 'position' AND column_type LIKE 'int%' OR column_name = 'source') ORDER BY 1`))
}
