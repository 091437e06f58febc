package durability

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	const hour = ">= 3600000"
	mariadb := map[string]string{flushLog: "1", binaryLog: "ON", syncBinlog: "1", readOnly: "OFF", galera: "OFF",
		"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_master_timeout": "1000000000000",
		"rpl_semi_sync_master_wait_point": "AFTER_SYNC", "Rpl_semi_sync_master_status": "ON",
		"Rpl_semi_sync_master_clients": "2"}
	mysql := map[string]string{flushLog: "1", binaryLog: "ON", syncBinlog: "1", readOnly: "OFF",
		"rpl_semi_sync_source_enabled": "ON", "rpl_semi_sync_source_timeout": "1000000000000000000",
		"rpl_semi_sync_source_wait_point": "AFTER_SYNC", "Rpl_semi_sync_source_status": "ON",
		"Rpl_semi_sync_source_clients": "1"}
	asynchronous := map[string]string{flushLog: "1", binaryLog: "ON", syncBinlog: "1", readOnly: "OFF"}
	for _, c := range []struct {
		of   map[string]string
		but  map[string]string // empty: not shown
		want []Finding
	}{
		{of: mariadb},
		{of: mysql},
		{of: mariadb, but: map[string]string{flushLog: "3"}},
		{of: mariadb, but: map[string]string{flushLog: "2"}, want: []Finding{{Weak, flushLog, "2", "1"}}},
		{of: mysql, but: map[string]string{flushLog: "0"}, want: []Finding{{Weak, flushLog, "0", "1"}}},
		{of: mysql, but: map[string]string{flushLog: ""}, want: []Finding{{Unknown, flushLog, "", "1"}}},
		{of: mysql, but: map[string]string{syncBinlog: "100"}, want: []Finding{{Weak, syncBinlog, "100", "1"}}},
		{of: mysql, but: map[string]string{syncBinlog: "100", binaryLog: "OFF"}},
		{of: mysql, but: map[string]string{syncBinlog: "100", binaryLog: ""}, want: []Finding{{Weak, syncBinlog, "100",
			"1"}}},
		{of: mysql, but: map[string]string{syncBinlog: "", binaryLog: ""}, want: []Finding{{Unknown, syncBinlog, "",
			"1"}}},
		{of: asynchronous, want: []Finding{{Unknown, "rpl_semi_sync_source_enabled", "", "ON"}}},
		{of: asynchronous, but: map[string]string{readOnly: "ON"}, want: []Finding{{NoWrite, readOnly, "ON", "OFF"}}},
		{of: asynchronous, but: map[string]string{readOnly: "NO_LOCK_NO_ADMIN"},
			want: []Finding{{NoWrite, readOnly, "NO_LOCK_NO_ADMIN", "OFF"}}},
		{of: asynchronous, but: map[string]string{readOnlyBelow: "1"},
			want: []Finding{{NoWrite, readOnlyBelow, "1", "OFF"}}},
		{of: asynchronous, but: map[string]string{galera: "1", clusterSize: "3", clusterStatus: "Primary"}},
		{of: asynchronous, but: map[string]string{galera: "ON", clusterSize: "1", clusterStatus: "Primary"},
			want: []Finding{{Weak, clusterSize, "1", ">= 2"}}},
		{of: asynchronous, but: map[string]string{galera: "ON", clusterSize: "3"},
			want: []Finding{{Unknown, clusterStatus, "", "Primary"}}},
		{of: mariadb, but: map[string]string{"rpl_semi_sync_master_enabled": "OFF"},
			want: []Finding{{Weak, "rpl_semi_sync_master_enabled", "OFF", "ON"}}},
		{of: mysql, but: map[string]string{"Rpl_semi_sync_source_status": "OFF"},
			want: []Finding{{Weak, "Rpl_semi_sync_source_status", "OFF", "ON"}}},
		{of: mysql, but: map[string]string{"Rpl_semi_sync_source_status": ""},
			want: []Finding{{Unknown, "Rpl_semi_sync_source_status", "", "ON"}}},
		{of: mysql, but: map[string]string{"Rpl_semi_sync_source_clients": "0"},
			want: []Finding{{Weak, "Rpl_semi_sync_source_clients", "0", ">= 1"}}},
		{of: mariadb, but: map[string]string{"rpl_semi_sync_master_wait_point": "AFTER_COMMIT",
			"rpl_semi_sync_master_timeout": "10000"},
			want: []Finding{{Weak, "rpl_semi_sync_master_wait_point", "AFTER_COMMIT", "AFTER_SYNC"},
				{Weak, "rpl_semi_sync_master_timeout", "10000", hour}}},
	} {
		found := maps.Clone(c.of)
		maps.Copy(found, c.but)
		maps.DeleteFunc(found, func(_, value string) bool { return value == "" })
		require.Equal(t, c.want, judge(found), c.but)
	}
	require.Equal(t, "sync_binlog=0 → 1", Finding{Weak, syncBinlog, "0", "1"}.String())
	require.Equal(t, "sync_binlog=? → 1", Finding{Unknown, syncBinlog, "", "1"}.String())
}
