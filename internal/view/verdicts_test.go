package view

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
