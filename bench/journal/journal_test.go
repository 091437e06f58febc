package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnswers_Between(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_795_000_000, 0)
	a := answers{Failed: 3, Failure: "status 503"}
	for i := range 100 {
		a.Samples = append(a.Samples, sample{began.Add(time.Duration(i) * time.Second).UnixNano(), time.Duration(100-i) * time.Millisecond})
	}
	h := a.between(began.Add(10*time.Second), began.Add(20*time.Second)) // 90 to 81 ms
	require.Equal(t, heard{rate: 1, p50: 86 * time.Millisecond, p99: 90 * time.Millisecond, failed: 3, failure: "status 503"}, h)
	require.Error(t, h.fault())
	require.Zero(t, answers{}.between(began, began.Add(time.Second)))
}

func TestRatios_AreOfTheSameRound(t *testing.T) {
	t.Parallel()
	require.Equal(t, "2.00 (0.50 to 3.00)", ratios([]float64{10, 20, 90}, []float64{20, 10, 30}))
	require.Equal(t, "–", ratios([]float64{10}, nil))
	require.Equal(t, "–", ratios([]float64{10}, []float64{0}))
}

func TestInTurn_ChangesTheOrder(t *testing.T) {
	t.Parallel()
	var order []bool
	p, err := inTurn(2, func(journal bool) (int, error) {
		order = append(order, journal)
		return len(order), nil
	}, func(int, bool, int) {})
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true, false}, order)
	require.Equal(t, pair[int]{without: []int{1, 4}, with: []int{2, 3}}, p)
}
