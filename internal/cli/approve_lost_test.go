package cli

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// A change that is approved, or pinned to its preview, is made once, also if the reply to a COMMIT is lost.
func TestApprovals_AfterLostCommits(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	w.AddUsers(1, 2, 3)
	for _, name := range []approval.Action{approval.AddSeats, approval.Restore, approval.Run} {
		of := w.approvable()[name]
		for _, pinned := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, pinned: %t", name, pinned), func(t *testing.T) {
				w.Exec("DELETE FROM policy WHERE id > 1")
				if !pinned {
					w.setPolicy("add-seats,restore,run")
				}
				for lost, more := int64(1), true; more; lost++ {
					id := of.prepare()
					command := of.command(id)
					used := 0
					if pinned {
						command = append(command, "--expect-digest="+w.digestOf(command...))
					} else {
						a := w.ask(command...)
						w.approve(a)
						command, used = append(command, a.flag()), 1
					}
					var commits atomic.Int64
					_, d := w.Proxied(losing(lost, &commits))
					code, _, stderr := w.withServers(d.Flags(d.Operator)).kim(command...)
					require.Zero(t, code, "commit %d: %s", lost, stderr)
					require.True(t, of.changed(id))
					require.Len(t, w.Payloads(id, audit.ApprovalUsed), used)
					w.Verify(id)
					more = commits.Load() >= lost
				}
			})
		}
	}
}

// losing is a rule that drops the reply to one COMMIT, and counts them.
func losing(lost int64, commits *atomic.Int64) faultproxy.Rule {
	return func(turn faultproxy.Turn) faultproxy.Action {
		if turn.Proxy == jajeongtest.ToMySQL && bytes.Contains(turn.Request, []byte("COMMIT")) &&
			commits.Add(1) == lost {
			return faultproxy.DropReply(nil)
		}
		return faultproxy.Pass()
	}
}
