package cli

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/jajeong/jajeong/internal/testenv"
)

// update writes the golden files anew: go test ./internal/cli -run Golden -update. Read the difference before you keep
// it.
var update = flag.Bool("update", false, "write golden files")

// spoken records a session with the program: each command, its output on both streams and its exit code.
type spoken struct {
	*world
	name string // of the golden file
	lang string // LANG of the built program
	cols uint16 // width of its terminal
	text strings.Builder
}

// inBothLanguages runs the program in Korean and in English, and compares its output with
// testdata/golden/<name>.<language>.txt. prepare prepares the world of each language.
func inBothLanguages(t *testing.T, name string, prepare func(w *world), session func(s *spoken)) {
	t.Helper()
	for lang, locale := range map[string]string{"ko": "ko_KR.UTF-8", "en": "C.UTF-8"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			s := &spoken{world: newWorld(t), name: name + "." + lang, lang: locale, cols: 200}
			prepare(s.world)
			session(s)
			compare(t, s.name, s.text.String())
		})
	}
}

// command is a command of the built program.
func (s *spoken) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(testenv.Patient(s.T), testenv.Build(s.T, "./cmd/settle"),
		append(args, s.serversFor(args)...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LANG=" + s.lang, "TERM=xterm", "HOME=" + s.T.TempDir()}
	return cmd
}

// says runs a command in this process, without a terminal, and notes the output.
func (s *spoken) says(args ...string) {
	s.T.Helper()
	_, lang, _ := strings.Cut(s.name, ".")
	code, stdout, stderr := s.settle(append(slices.Clone(args), "--lang="+lang)...)
	s.note(args, code, stdout, stderr)
}

// saysAsProgram runs a command of the built program with pipes as its streams, and notes the output.
func (s *spoken) saysAsProgram(args ...string) {
	s.T.Helper()
	cmd := s.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	code := s.exitCode(cmd.Run())
	s.note(args, code, stdout.String(), stderr.String())
}

// interrupt is Ctrl-C, typed without Enter.
const interrupt = "\x03"

// saysOnTerminal runs a command on a pseudo-terminal, types an answer at each question, and notes the output.
func (s *spoken) saysOnTerminal(answers []string, args ...string) {
	s.T.Helper()
	said, code := s.onTerminal(nil, answers, args...)
	s.note(args, code, said, "")
}

// onTerminal returns the output on the terminal with its escape sequences.
func (s *spoken) onTerminal(environment, answers []string, args ...string) (text string, code int) {
	s.T.Helper()
	cmd := s.command(args...)
	cmd.Env = append(cmd.Env, environment...)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: s.cols})
	require.NoError(s.T, err)
	defer terminal.Close()
	keepsOutput(s.T, terminal)
	var said bytes.Buffer
	buffer := make([]byte, 4096)
	for {
		n, err := terminal.Read(buffer)
		said.Write(buffer[:n])
		if len(answers) > 0 && bytes.HasSuffix(said.Bytes(), []byte("[y/N] ")) {
			typed := answers[0] + "\n"
			if answers[0] == interrupt {
				typed = interrupt
			}
			_, err = io.WriteString(terminal, typed)
			require.NoError(s.T, err)
			answers = answers[1:]
		}
		if err != nil {
			break // the terminal is gone with the program
		}
	}
	code = s.exitCode(cmd.Wait())
	return strings.ReplaceAll(said.String(), "\r\n", "\n"), code
}

// keepsOutput makes Ctrl-C leave what was written. By default a terminal drops it, and perhaps what the program says
// about the signal.
func keepsOutput(t testing.TB, terminal *os.File) {
	t.Helper()
	raw, err := terminal.SyscallConn() // Fd would make it block
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		settings, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		require.NoError(t, err)
		settings.Lflag |= unix.NOFLSH
		require.NoError(t, unix.IoctlSetTermios(int(fd), unix.TCSETS, settings))
	}))
}

// saysUntilStopped stops a command after a log line and notes its log, without the lines about the stop.
func (s *spoken) saysUntilStopped(until string, args ...string) {
	s.T.Helper()
	cmd := s.command(args...)
	logs, err := cmd.StderrPipe()
	require.NoError(s.T, err)
	require.NoError(s.T, cmd.Start())
	var said strings.Builder
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		if !strings.Contains(lines.Text(), "stopped by a signal") {
			said.WriteString(lines.Text() + "\n")
		}
		if strings.Contains(lines.Text(), until) {
			require.NoError(s.T, cmd.Process.Signal(syscall.SIGTERM))
		}
	}
	s.note(args, s.exitCode(cmd.Wait()), "", said.String())
}

func (s *spoken) exitCode(err error) int {
	s.T.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(s.T, err)
	}
	if exit != nil {
		return exit.ExitCode()
	}
	return 0
}

func (s *spoken) note(args []string, code int, stdout, stderr string) {
	fmt.Fprintf(&s.text, "$ settle %s\n%s", strings.Join(args, " "), stdout)
	if stderr != "" {
		fmt.Fprintf(&s.text, "--- stderr\n%s", stderr)
	}
	fmt.Fprintf(&s.text, "--- exit %d\n\n", code)
}

// compare compares with the golden file of a name.
func compare(t testing.TB, name, text string) {
	t.Helper()
	got := normalised(text)
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "write it with -update")
	require.Equal(t, string(want), got)
}

// variable are patterns of text that varies, in the order of their replacement.
var variable = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`(?m)^.*\bDURABILITY_(WEAK|UNKNOWN)\b.*\n`), ""}, // of the tests' server
	{regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\r`), ""},                // escape sequences of the terminal
	{regexp.MustCompile(`[\x{2800}-\x{28FF}] .*?\[[^\]]*\] +`), ""},      // progress
	{regexp.MustCompile(`\be?yJ[\w-]+\.[\w-]+\.[\w-]+`), "<receipt>"},
	{regexp.MustCompile(`\bjajeong_\w+@%`), "<account>"},
	{regexp.MustCompile(`"(clientKey|key)": "[A-Z2-7]{26}"`), `"$1": "<key>"`},
	{regexp.MustCompile(`"iat": \d+`), `"iat": <number>`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,9})?)?( KST| GMT| [+-]\d\d|Z|[+-]\d\d:\d\d)?`),
		"<time>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "<date>"},
	{regexp.MustCompile(`<date> – <date>`), "<date>"}, // around midnight, two hours are on two days
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ns|µs|ms|s)\b`), "<duration>"},
	{regexp.MustCompile(`\b\d{16}\b`), "<arrival>"},
	// Hashes of events contain a time.
	{regexp.MustCompile(`(번입니다 \(|with event \d+, |"hash": "|,\d+,)sha256:[0-9a-f]{64}`), "${1}<hash>"},
	// The digest of a restore contains arrivals.
	{regexp.MustCompile("(accept-gap`(?:\\.|으로 유실을 인정하세요\\.)\n  )sha256:[0-9a-f]{64}"), "${1}<digest>"},
	{regexp.MustCompile(`(\d+(일|시간|분) )*\d+(\.\d+)?초`), "<duration>"},
	{regexp.MustCompile(`(\d+ (days?|hours?|minutes?) )*\d+(\.\d+)? seconds?\b`), "<duration>"},
	{regexp.MustCompile(`"(in|next_try_in)":[\d.e+]+`), `"$1":<number>`},
	{regexp.MustCompile(`"micros": \d+`), `"micros": <number>`},
	{regexp.MustCompile(`"durationMs": \d+`), `"durationMs": <number>`},
	{regexp.MustCompile(`[ ]{2,}│`), " │"}, // widths of cells
	{regexp.MustCompile(`─+`), "─"},
}

// normalised replaces times, durations and widths, which differ from run to run.
func normalised(text string) string {
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.by)
	}
	return text
}
