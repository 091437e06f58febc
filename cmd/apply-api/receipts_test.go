package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/receipt"
	"github.com/jajeong/jajeong/internal/testenv"
)

const (
	oldKey = "old b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2w=\n"
	newKey = "new bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmU=\n"
)

// Keys are rotated without a restart, and a pod never logs a receipt or a key.
func TestReceiptKeysAreRotated(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisFor(t)
	path := filepath.Join(t.TempDir(), "receipt-keys")
	require.NoError(t, os.WriteFile(path, []byte(oldKey), 0o600))
	p := startAt(t, listening, append(asAPI(t, redis.Prefix, redis.Addrs...), "MYSQL_DSN="+apiDSN(t),
		"REDIS_ADDRS="+strings.Join(redis.Addrs, ","), "REDIS_KEY_PREFIX="+redis.Prefix, "RECEIPT_KEYS_FILE="+path,
		"USER_RATE=0")...)
	p.awaitReady(http.StatusOK)
	onlyWith := func(line string) *receipt.Keys {
		keys, err := receipt.Load(write(t, line), time.Now)
		require.NoError(t, err)
		return keys
	}
	older, newer := onlyWith(oldKey), onlyWith(newKey)

	text := p.mustApply(http.StatusAccepted, 1, 7)
	var first struct {
		AppliedAt time.Time
		Receipt   string
	}
	require.NoError(t, json.Unmarshal([]byte(text), &first))
	got, err := older.Check(first.Receipt)
	require.NoError(t, err)
	require.Equal(t, receipt.Receipt{Coupon: 1, User: 7, Arrival: coupon.ArrivalAt(first.AppliedAt), Position: 1,
		SignedAt: got.SignedAt}, got)
	require.InDelta(t, first.AppliedAt.Unix(), got.SignedAt, 3600)

	require.NoError(t, os.WriteFile(path, []byte(newKey+oldKey), 0o600))
	var again struct{ Receipt string }
	testenv.Eventually(t, "the new key signs", func() bool {
		text = p.mustApply(http.StatusOK, 1, 7)
		require.NoError(t, json.Unmarshal([]byte(text), &again))
		got, err = newer.Check(again.Receipt)
		return err == nil
	})
	require.Equal(t, coupon.ArrivalAt(first.AppliedAt), got.Arrival)
	for _, never := range []string{first.Receipt, again.Receipt, strings.Fields(oldKey)[1], strings.Fields(newKey)[1]} {
		require.NotContains(t, p.stderr.String(), never)
	}
}

func write(t *testing.T, line string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(line), 0o600))
	return path
}
