package output

import (
	"bytes"
	"testing"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/stretchr/testify/require"
)

func TestFitting(t *testing.T) {
	t.Parallel()
	shown := func(width int, header, footer table.Row, rows ...table.Row) string {
		var out bytes.Buffer
		f := &fitting{Writer: table.NewWriter(), to: &out, width: width}
		if header != nil {
			f.AppendHeader(header)
		}
		for _, row := range rows {
			f.AppendRow(row)
		}
		if footer != nil {
			f.AppendFooter(footer)
		}
		f.Render()
		return out.String()
	}
	coupons := []table.Row{{7, "블랙 프라이데이", 500}, {8, "자정", ""}}
	header, footer := table.Row{"쿠폰", "이름", "seats"}, table.Row{"합계", "", 500}
	require.Contains(t, shown(80, header, footer, coupons...), "+")
	require.Equal(t, "쿠폰   7\n이름   블랙 프라이데이\nseats  500\n\n쿠폰   8\n이름   자정\n\n쿠폰   합계\nseats  500\n\n",
		shown(20, header, footer, coupons...))
	require.Equal(t, "쿠폰  7\n기간  2026-11-27 14:00부터\n\n", shown(10, nil, nil, table.Row{"쿠폰", 7},
		table.Row{"기간", "2026-11-27 14:00부터"}), "the first column has the names")
}
