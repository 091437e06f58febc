package verify

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A change needs an approval if every version of the policy between the beginning of its run and its event names it: a
// run asks the policy in between.
func TestNamed(t *testing.T) {
	t.Parallel()
	run := func(n uint64) *uint64 { return &n }
	none, runs, both := policyVersion{}, policyVersion{runsAfter: 10, eventsAfter: 100,
		actions: []string{"run", "drop"}}, policyVersion{runsAfter: 20, eventsAfter: 200,
		actions: []string{"drop", "run"}}
	relaxed := policyVersion{runsAfter: 30, eventsAfter: 300, actions: []string{"drop"}}
	all := []policyVersion{none, runs, both, relaxed}
	for name, c := range map[string]struct {
		event approvedEvent
		want  bool
	}{
		"before the first version":              {approvedEvent{id: 100}, false},
		"after it":                              {approvedEvent{id: 101}, true},
		"after the relaxation":                  {approvedEvent{id: 301}, false},
		"a run before, its event before":        {approvedEvent{id: 99, run: run(10)}, false},
		"a run before, its event after":         {approvedEvent{id: 101, run: run(10)}, false},
		"a run after":                           {approvedEvent{id: 101, run: run(11)}, true},
		"a run across two that name it":         {approvedEvent{id: 201, run: run(11)}, true},
		"a run that waits for the relaxation":   {approvedEvent{id: 301, run: run(21)}, false},
		"a run that ends before it":             {approvedEvent{id: 300, run: run(21)}, true},
		"a run that is counted after its event": {approvedEvent{id: 150, run: run(31)}, true},
	} {
		require.Equal(t, c.want, c.event.named(all, []string{"run"}), name)
	}
	require.False(t, approvedEvent{id: 150}.named(all, []string{"grant"}))
	require.False(t, approvedEvent{id: 150}.named(nil, []string{"run"}))
}
