package view

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/durability"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verify"
)

// Each invariant of the contract has its row, which says whether it holds.
func TestVerdicts_ShowEveryInvariant(t *testing.T) {
	t.Parallel()
	design := testenv.Content(t, "../../docs/design.md")
	section := regexp.MustCompile(`(?s)\n## 2\. Invariants\n(.*?)\n## `).FindSubmatch(design)
	require.NotNil(t, section)
	invariants := len(regexp.MustCompile(`(?m)^\d+\. \*\*`).FindAll(section[1], -1))
	require.GreaterOrEqual(t, invariants, 10)
	for broken := 1; broken <= invariants; broken++ {
		var printed bytes.Buffer
		v := View{output.Locale{Language: text.English, Zone: time.UTC}, &printed}
		v.Verdicts(verify.Summary{Strays: []verify.Finding{{Invariant: broken}}})
		for n := 1; n <= invariants; n++ {
			holds := "yes"
			if n == broken {
				holds = "NO"
			}
			require.Regexp(t, fmt.Sprintf(`(?m)^│ +%d │ [^│]+ │ %s +│`, n, holds), printed.String())
		}
	}
}

// What may let MySQL lose what it commits is a warning, which breaks no invariant.
func TestVerdicts_ShowDurability(t *testing.T) {
	t.Parallel()
	found := []durability.Finding{{Code: durability.Weak, Variable: "sync_binlog", Value: "0", Want: "1"},
		{Code: durability.Unknown, Variable: "rpl_semi_sync_source_enabled", Want: "ON"}}
	for language, want := range map[text.Language][]string{
		text.English: {"warning DURABILITY_WEAK: MySQL may lose what it commits: sync_binlog is 0, should be 1",
			"warning DURABILITY_UNKNOWN: not known whether MySQL keeps what it commits: it does not show " +
				"rpl_semi_sync_source_enabled, which should be ON"},
		text.Korean: {"경고 DURABILITY_WEAK: MySQL이 커밋한 데이터를 잃을 수 있습니다. sync_binlog의 현재 값은 0, 필요한 값은 1입니다",
			"경고 DURABILITY_UNKNOWN: MySQL이 커밋한 데이터를 지키는지 확인할 수 없습니다. rpl_semi_sync_source_enabled 값을 " +
				"읽을 수 없습니다(필요한 값: ON)"},
	} {
		var printed bytes.Buffer
		s := verify.Summary{Durability: found}
		View{output.Locale{Language: language, Zone: time.UTC}, &printed}.Verdicts(s)
		for _, line := range want {
			require.Contains(t, printed.String(), line)
		}
		require.Empty(t, s.Violations())
	}
}
