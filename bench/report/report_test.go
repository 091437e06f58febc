package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	t.Parallel()
	own := func(f float64) float64 { return f }
	rows := []Row[float64]{{"a", []float64{10, 20, 90}}, {"b", []float64{20, 10, 30}}, {"c", nil}}
	require.Equal(t, "| way | rate | spread | ratio | sum |\n| --- | ---: | ---: | ---: | ---: |\n"+
		"| a | 20 | 10 to 90 | 2.00 (0.50 to 3.00) | 120 |\n| b | 20 | 10 to 30 | 1.00 (1.00 to 1.00) | 60 |\n",
		Table("way", rows, Median("rate", Whole, own), Spread("spread", Whole, own), Ratio("ratio", To("b"), own),
			Sum("sum", func(f float64) int { return int(f) })))
	require.Equal(t, "–", Ratios([]float64{1}, []float64{0}))
	require.Equal(t, []string{"–", "1.50 ms", "20 ms", "12.0 s"}, []string{Time(0), Time(0.0015), Time(0.02), Time(12)})
}

func TestInTurn_ChangesTheOrder(t *testing.T) {
	t.Parallel()
	var order []int
	way := func(i int) func() (int, error) {
		return func() (int, error) {
			order = append(order, i)
			return len(order), nil
		}
	}
	rows, err := InTurn(2, []Way[int]{{"a", way(0)}, {"b", way(1)}})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 1, 0}, order)
	require.Equal(t, []Row[int]{{"a", []int{1, 4}}, {"b", []int{2, 3}}}, rows)
}

// Tables go to the place of their command, and the charts show them.
func TestKeep(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# Page\n\n<!-- bench x -->\n\nold\n<!-- end -->\n\n<!-- bench x -rounds 9 -->\n\n| a |\n| --- |\n| 1 " +
		"|\n<!-- end -->\nend\n"
	require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	table := Table("contender", []Row[float64]{{"A", []float64{3}}}, Median("rate", Whole,
		func(f float64) float64 { return f }))
	charts := func(tables []Printed) map[string]string {
		of := With(tables, "rate")[0]
		return map[string]string{"x.svg": Bars{Labels: []Short{{"A", "a"}}, Bars: []Bar{{"bar", of, "rate"}}}.Draw()}
	}
	require.NoError(t, Keep(page, "bench x", table, charts))
	kept, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, "# Page\n\n<!-- bench x -->\n\n"+table+"\n<!-- end -->\n\n<!-- bench x -rounds 9 -->\n\n"+
		"| a |\n| --- |\n| 1 |\n<!-- end -->\nend\n", string(kept))
	chart, err := os.ReadFile(filepath.Join(filepath.Dir(page), "x.svg"))
	require.NoError(t, err)
	require.Contains(t, string(chart), ">3</text>")
	require.NoError(t, Keep(page, "bench x", table, nil), "a page without charts")
	require.ErrorContains(t, Keep(page, "bench y", table, charts), "no place")
}
