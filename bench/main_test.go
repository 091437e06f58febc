package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/testenv"
)

var update = flag.Bool("update", false, "draw the charts of docs/bench again from the tables there")

// TestMain lets the test program be the roles of the bench, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == stage.WorkVerb {
		main()
		return
	}
	os.Exit(m.Run())
}

// Every subject measures at a small size, and prints tables in which every contender has a row.
func TestSubjects(t *testing.T) {
	t.Parallel()
	testenv.NeedsServers(t)
	for name, c := range map[string]struct {
		args string
		rows []string
	}{
		"apply": {"-contenders nothing,api,journal,hs256-again,plain,pipeliner,row-lock -scenes= -rounds 1 " +
			"-seconds 0.4 -connections 4",
			[]string{"an empty handler", "Jajeong", "Jajeong, ACCEPT_AFTER=journal", "a row lock per request",
				"go-redis's automatic pipeliner"}},
		"settle": {"-seats 1000 -scenes small,events,reads -rounds 1 -coupons 2 -big 1000",
			[]string{"1000 | settle run", "1000 | LOAD DATA", "1000 | INSERT of 1 row", "settle verify",
				"the relay publishes"}},
		"issue": {"-seconds 1 -quick 50 -scenes loads -contenders jajeong,stream,seats,asynq",
			[]string{"1000 | 10 | asynq", "20 | 1 | Jajeong, 100ms", "20 | 1 | seat rows, SKIP LOCKED"}},
		"redeem": {"-rounds 1 -coupons 100 -waves 1 -crowd 16 -paused 2 -pause 0.1",
			[]string{"Jajeong", "Redis lock, one step", "SELECT … FOR UPDATE"}},
		"events": {"-rounds 1 -events 200", []string{"one settlement | redis", "changes | kafka"}},
		"live": {"-rounds 1 -streams 20 -winners 2 -rate 20 -idle 0.2 -load 0.2 -scenes streams,nobody,channels",
			[]string{"Jajeong"}},
		"journal": {
			"-rounds 1 -backlog 1000 -lines 50 -settled 1000 -rate 50 -seconds 0.2 -scenes short,settlement,restore",
			[]string{"one transaction for 50 coupons", "with it", "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			args := append([]string{name}, strings.Fields(c.args)...)
			require.NoError(t, run(t.Context(), args, nil, &out, os.Stderr))
			for _, row := range c.rows {
				require.Contains(t, out.String(), "| "+row+" | ")
			}
		})
	}
}

// The charts beside the pages show what the tables have.
func TestChartsOfDocs(t *testing.T) {
	t.Parallel()
	const folder = "../docs/bench"
	for _, s := range subjects {
		page, err := os.ReadFile(filepath.Join(folder, s.name+".md"))
		require.NoError(t, err)
		if s.charts == nil {
			continue
		}
		charts := s.charts(report.Read(string(page)))
		require.NotEmpty(t, charts, s.name)
		for name, drawn := range charts {
			require.Contains(t, string(page), "("+name+")")
			if *update {
				require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(drawn), 0o644))
			}
			kept, err := os.ReadFile(filepath.Join(folder, name))
			require.NoError(t, err)
			require.Equal(t, string(kept), drawn, "draw it with -update")
		}
	}
}
