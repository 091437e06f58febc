package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/jajeong/jajeong/internal/text"
)

// A reader can paste a command as the demo shows it: a shell reads the words that were run.
func TestScreen_ShowsCommandsAsTheyRun(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{
		{"settle", "verify"},
		{"settle", "coupon", "create", "--name", "블랙프라이데이 50% 할인", "--seats", "1000", "--cadence", "nightly",
			"--discount-won", "20000",
			"--opens", "2026-11-28T02:45:01Z", "--closes", "2026-11-29T02:45:01Z", "--operator", "kim", "--reason",
			"demo"},
		{"consumer", "run", "--name", "shop-1", "--claim-after", "500ms", "--until-empty"},
	} {
		var shown bytes.Buffer
		newScreen(&shown, text.Korean).command(words...)
		line, isCommand := strings.CutPrefix(shown.String(), "$ ")
		require.True(t, isCommand, &shown)
		parsed, err := syntax.NewParser().Parse(strings.NewReader(line), "")
		require.NoError(t, err)
		require.Len(t, parsed.Stmts, 1)
		read, err := expand.Fields(nil, parsed.Stmts[0].Cmd.(*syntax.CallExpr).Args...)
		require.NoError(t, err)
		require.Equal(t, words, read)
		for line := range strings.Lines(shown.String()) {
			require.LessOrEqual(t, len([]rune(line)), maxColumns+1)
		}
	}
}

func TestScreen_SpeaksTheLanguageOfTheLocale(t *testing.T) {
	t.Parallel()
	for language, told := range map[text.Language]string{
		text.Korean: "연결 64개로 요청 50,997건: 이 컴퓨터에서 클라이언트까지 포함해 초당 14,218건입니다.\n  발급 순번   HTTP\n      1,000    409\n",
		text.English: "50,997 requests over 64 connections: 14,218 a second on this machine, client included.\n" +
			"   seat   HTTP\n  1,000    409\n",
	} {
		var shown bytes.Buffer
		s := newScreen(&shown, language)
		s.passing(text.DemoApplying, 1, 2) // for terminals alone
		s.say(text.DemoRate, 50_997, 64, 14_218)
		s.table([]any{text.DemoSeat, "HTTP"}, []any{1000, 409})
		require.Equal(t, told, shown.String())
	}
}
