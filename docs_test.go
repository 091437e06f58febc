package jajeong_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// needs are the programs that a block may call, by the mark of its fence, such as ```sh cluster. Tests do not run
// commands of marked blocks, except for the commands of Jajeong, which every block may call.
var needs = map[string][]string{
	"": {"make", "go", "source", "export", "settle", "apply-api", "wallet-api"},
	"servers": {"mysql", "mysqldump", "mysqlbinlog", "mariadb", "mariadb-dump", "mariadb-binlog", "redis-cli",
		"redis-check-aof", "redis-check-rdb",
		"curl", "grep", "sleep", "mkdir", "cp", "mv", "echo", "read", "[", "date", "head", "cut", "ls", "sed"},
	"docker":  {"docker"},
	"clients": {"npx", "npm", "mkdir"},
	"cluster": {"kubectl", "docker", "kind", "jq", "mysql", "k8s/deploy.sh", "k8s/settle.sh"},
}

type script struct {
	file, mark, text string
}

// scripts returns the fenced blocks of all documents, and the indented lines that begin with a command, those in a row
// together. inline are the verbs between backticks in a text.
func scripts(t *testing.T) (found []script, inline []script) {
	t.Helper()
	command :=
		regexp.MustCompile(
			`^( {4,}|\t)([A-Z_]+=\S+ )*(bin/|\./)?(settle|apply-api|wallet-api|make|go run|kubectl|docker|mysql|mysqldump|redis-cli|curl|k8s/\S+\.sh) `)
	for file, text := range documents(t) {
		var fence *script
		indented := false // the last line is of found's last script
		for line := range strings.Lines(text) {
			info, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
			follows := indented
			indented = fence == nil && !isFence && command.MatchString(line)
			switch {
			case fence != nil && isFence:
				found, fence = append(found, *fence), nil
			case fence != nil:
				require.False(t, fence.mark == "no shell" && unmarked.MatchString(line), "%s: name shell blocks sh: %s",
					file, line)
				fence.text += line
			case isFence:
				language, mark, _ := strings.Cut(info, " ")
				require.Contains(t, []string{"", "sh", "mermaid", "yaml", "nginx", "java", "js", "html"}, language,
					"%s: name shell blocks sh", file)
				fence = &script{file: file, mark: mark}
				if language != "sh" {
					fence.mark = "no shell"
				}
			case indented && follows:
				found[len(found)-1].text += line
			case indented:
				found = append(found, script{file: file, text: line})
			default:
				for _, code := range inlineCommand.FindAllStringSubmatch(line, -1) {
					inline = append(inline, script{file: file, text: code[1]})
				}
			}
		}
		require.Nil(t, fence, "%s: a block does not end", file)
	}
	found = slices.DeleteFunc(found, func(s script) bool { return s.mark == "no shell" })
	return found, inline
}

// unmarked matches a command of a block that must say what it needs.
var unmarked = regexp.MustCompile(`^(npx|npm|curl|docker|kubectl|make|mysql|redis-cli) `)

var inlineCommand = regexp.MustCompile("`(settle [^`]+)`")

// documents returns the text of every document except for the CHANGELOG, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".md") && path != "CHANGELOG.md" {
			texts[path] = read(t, path)
		}
		return err
	})
	require.NoError(t, err)
	return texts
}

func read(t *testing.T, file string) string {
	t.Helper()
	text := testenv.Content(t, file)
	return string(text)
}

// calls returns the commands of a script with the expansions of a shell, except for command substitutions, which are
// empty.
func (s script) calls(t *testing.T) (calls [][]string) {
	t.Helper()
	parsed, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(s.text), s.file)
	require.NoError(t, err, "%s", s.text)
	shell := &expand.Config{
		Env:       expand.FuncEnviron(func(string) string { return "value" }),
		CmdSubst:  func(io.Writer, *syntax.CmdSubst) error { return nil },
		ProcSubst: func(*syntax.ProcSubst) (string, error) { return "file", nil },
	}
	syntax.Walk(parsed, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CallExpr:
			words, err := expand.Fields(shell, n.Args...)
			require.NoError(t, err, "%s: %s", s.file, s.text)
			if len(words) > 0 {
				calls = append(calls, words)
			}
		case *syntax.DeclClause:
			calls = append(calls, []string{n.Variant.Value})
		}
		return true
	})
	return calls
}

func TestDocuments_CommandsAreAccepted(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	blocks, inline := scripts(t)
	tried := map[string]bool{} // programs, and calls of ours
	accepted := func(file, program string, args []string, part bool) {
		t.Helper()
		given, part := arguments(args, part)
		if call := fmt.Sprintf("%s %q %t", program, given, part); !tried[call] {
			tried[call] = true
			requireAccepted(t, file, program, given, part)
		}
	}
	for _, s := range blocks {
		may, known := needs[s.mark]
		require.True(t, known, "%s: a block cannot be marked %q", s.file, s.mark)
		for _, words := range s.calls(t) {
			name, args := strings.TrimPrefix(words[0], "bin/"), words[1:]
			tried[name] = true
			assert.True(t, slices.Contains(may, name) || slices.Contains(needs[""], name),
				"%s: %q cannot be run by a test: mark its block with what it needs", s.file, words)
			for _, word := range words {
				if inRepository.MatchString(word) {
					_, err := os.Stat(word)
					require.NoError(t, err, s.file)
				}
			}
			switch {
			case name == "settle", name == "apply-api", name == "wallet-api":
				accepted(s.file, name, args, false)
			case name == "k8s/settle.sh":
				accepted(s.file, "settle", args, false)
			case name == "docker" && len(args) > 3 &&
				slices.Equal(args[:4], []string{"compose", "run", "--rm", "settle"}):
				accepted(s.file, "settle", args[4:], false)
			case name == "make":
				for _, target := range slices.DeleteFunc(args,
					func(a string) bool { return strings.Contains(a, "=") }) {
					require.Regexp(t, `(?m)^`+regexp.QuoteMeta(target)+`:`, makefile, "%s: %q", s.file, words)
				}
			}
		}
	}
	for _, name := range []string{"settle", "apply-api", "make", "kubectl", "docker", "mysql", "k8s/settle.sh"} {
		require.True(t, tried[name], "no document has a call of %s: the search for commands is wrong", name)
	}
	require.Greater(t, len(inline), 40)
	for _, s := range inline {
		accepted(s.file, "settle", strings.Fields(s.text)[1:], true)
	}
}

// A reader pastes a block as a whole into bash or zsh. An interactive zsh knows no comments: it hands # and the words
// behind it to the command. A command that asks for something takes the lines behind it as the answer, and behind one
// that goes on they wait.
func TestDocuments_BlocksCanBePasted(t *testing.T) {
	t.Parallel()
	blocks, _ := scripts(t)
	for _, s := range blocks {
		parsed, err := syntax.NewParser(syntax.Variant(syntax.LangBash),
			syntax.KeepComments(true)).Parse(strings.NewReader(s.text), s.file)
		require.NoError(t, err, "%s", s.text)
		syntax.Walk(parsed, func(node syntax.Node) bool {
			if comment, is := node.(*syntax.Comment); is {
				t.Errorf("%s: #%s: say it outside of the block", s.file, comment.Text)
			}
			return true
		})
		for _, statement := range parsed.Stmts[:len(parsed.Stmts)-1] {
			line := s.text[statement.Pos().Offset():statement.End().Offset()]
			for _, words := range (script{s.file, s.mark, line}).calls(t) {
				assert.False(t, !statement.Background && keepsTerminal(words), "%s: nothing can be pasted behind: %s",
					s.file, line)
			}
		}
	}
	for line, keeps := range map[string]bool{
		"mysql -u root -p": true, "mysqldump --password coupons": true, "mysql -psecret": false, "mkdir -p x": false,
		"bin/settle run --operator kim": true, "settle run --operator kim --yes": false, "settle run": false,
		"settle dlq drop --cause BAD_ROW": true, "settle dlq drop --user 7": false,
		"apply-api": true, "settle serve": true, "docker compose up": true, "docker compose up --detach": false,
		"go run ./examples/page": true,
	} {
		require.Equal(t, keeps, keepsTerminal(strings.Fields(line)), line)
	}
}

// keepsTerminal reports whether a command reads standard input, or runs until it is interrupted.
func keepsTerminal(words []string) bool {
	has := func(any ...string) bool {
		return slices.ContainsFunc(words[1:], func(word string) bool { return slices.Contains(any, word) })
	}
	call := strings.Join(words, " ") + " "
	switch name := strings.TrimPrefix(words[0], "bin/"); {
	case strings.HasPrefix(name, "mysql"), strings.HasPrefix(name, "mariadb"):
		return has("-p", "--password")
	case name == "apply-api", name == "wallet-api":
		return true
	case name == "settle":
		asks := has("run") && has("--operator") || has("approve") || has("drop") && has("--cause")
		return has("serve", "console") || asks && !has("--yes", "--dry-run", "--ask")
	case name == "docker":
		return strings.HasPrefix(call, "docker compose up ") && !has("-d", "--detach") ||
			strings.HasPrefix(call, "docker compose exec ") && !has("-T")
	case name == "kubectl":
		return has("-it", "-i", "-f", "--follow", "port-forward") && !has("create", "apply")
	}
	return regexp.MustCompile(`^(make try|go run \./examples/(page|consumer run)|npx .* mock) `).MatchString(call)
}

var inRepository = regexp.MustCompile(`^(\./)?(k8s|sql|docs|scripts|bench|examples|compose)/[\w./-]+$`)

// placeholders are the words that a reader replaces, with values for the tests.
var placeholders = map[string]string{
	"RUN": "17", "실행": "17", "ID": "42", "USER": "7", "N": "3", "D": "2026-11-20", "TIME": "2026-11-21T00:00:00+09:00",
	"sha256:…": "sha256:" + strings.Repeat("0", 64),
}

// arguments returns those of a documented call, with values for the placeholders. A part is a command without its
// mandatory flags, as is a call of --help.
func arguments(args []string, part bool) (given []string, isPart bool) {
	for _, arg := range args {
		if arg == "…" || arg == "VERB" || arg == "명령" {
			break
		}
		if value, is := placeholders[arg]; is {
			arg = value
		}
		if n := len(given); n > 0 && (given[n-1] == "--reason" || given[n-1] == "--name") {
			arg = "x" // the same call in both languages
		}
		given = append(given, strings.TrimSuffix(arg, `\`))
	}
	if slices.Contains(given, "--help") {
		given = slices.DeleteFunc(given, func(arg string) bool { return arg == "--help" })
		part = true
	}
	return given, part
}

// requireAccepted demands that the program accepts these arguments. It adds an unknown flag, which must be the only
// reported mistake, so that the program does nothing.
func requireAccepted(t *testing.T, file, program string, given []string, part bool) {
	t.Helper()
	var stderr bytes.Buffer
	args := append(slices.Clone(given), "--no-such-flag")
	command := exec.CommandContext(t.Context(), testenv.Build(t, "./cmd/"+program), args...)
	command.Env = []string{"MYSQL_DSN=nobody:secret@tcp(127.0.0.1:1)/coupons", "REDIS_ADDRS=127.0.0.1:1"}
	command.Stderr = &stderr
	err := command.Run()
	if slices.Contains(given, "completion") { // it ignores other arguments
		require.NoError(t, err, "%s: %s %q", file, program, given)
		return
	}
	require.Error(t, err, "%s: %s %q", file, program, given)
	require.Equal(t, 2, command.ProcessState.ExitCode(), "%s: %s %q: %s", file, program, given, stderr.String())
	objections := slices.DeleteFunc(slices.Collect(strings.Lines(stderr.String())), func(line string) bool {
		return strings.Contains(line, "--no-such-flag") ||
			part && !strings.Contains(line, "unknown flag") && !strings.Contains(line, "unexpected argument")
	})
	assert.Empty(t, objections, "%s: %s %q", file, program, given)
}

// The test runs the commands of each English page from top to end, on a deployment where coupon 42 has been open for
// days, a run has settled a part of its queue, and user 7 is under review. The Korean pages have the same commands.
// k8s/monitoring runs the commands of the playbooks.
func TestHandbooks_CommandsSucceed(t *testing.T) {
	t.Parallel()
	blocks, _ := scripts(t)
	pages := map[string][]string{}
	for _, s := range blocks {
		for line := range strings.Lines(s.text) {
			if line = strings.TrimSpace(line); s.mark == "" && strings.HasPrefix(line, "settle ") &&
				!strings.Contains(s.file, "playbooks") {
				pages[s.file] = append(pages[s.file], line)
			}
		}
	}
	require.Subset(t, slices.Collect(maps.Keys(pages)),
		[]string{"docs/deploy.md", "docs/deploy.ko.md", "docs/operators.md", "docs/operators.ko.md"})
	for file, lines := range pages {
		if page, is := strings.CutSuffix(file, ".ko.md"); is {
			require.Equal(t, inAnyLanguage(pages[page+".md"]), inAnyLanguage(lines), file)
			continue
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			h := newHandbook(t)
			for _, line := range lines {
				if !twoPersons.MatchString(line) {
					h.carryOut(line)
				}
			}
		})
	}
}

var ownWords = regexp.MustCompile(`( --(?:reason|name)) ("[^"]*"|\S+)| +#.*`)

// inAnyLanguage returns the commands without comments, reasons and names.
func inAnyLanguage(lines []string) (same []string) {
	for _, line := range lines {
		same = append(same, strings.ReplaceAll(ownWords.ReplaceAllString(line, "$1"), "실행", "RUN"))
	}
	return same
}

// twoPersons matches the commands of approvals, which need two accounts, and change what later commands of a page may
// do. Tests of internal/cli carry them out.
var twoPersons = regexp.MustCompile(`^settle (policy set|approve|approvals) |--ask |--approval `)

type handbook struct {
	*deployment
	dir, run string
	today    time.Time // at the beginning, so that midnight in the middle of a page is no difference
}

func newHandbook(t *testing.T) *handbook {
	t.Helper()
	h := &handbook{deployment: deploy(t), dir: t.TempDir()}
	h.today = h.Now().In(jajeongtest.Zone)
	h.Exec(`INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at)
		VALUES (42, '심야 쿠폰', 10, UTC_TIMESTAMP(6) - INTERVAL 5 DAY, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`)
	h.AddUsers(5, 6, 8) // and not 7
	for _, user := range []string{"5", "6", "7"} {
		h.ApplyAt(42, user, h.today.Add(-96*time.Hour))
	}
	h.carryOut("settle run")
	h.ApplyAt(42, "8", h.today.Add(-72*time.Hour)) // for the first run of the page
	h.run = fmt.Sprint(h.Number("SELECT MAX(id) FROM settlement_run"))
	return h
}

// carryOut runs a line as an operator types it, with dates of today. The line must succeed.
func (h *handbook) carryOut(line string) {
	h.T.Helper()
	digest := ""
	if strings.Contains(line, "--expect-digest") {
		digest = h.approved(h.today.AddDate(0, 0, -1).Format(time.DateOnly))
	}
	line = jajeongtest.DatedFor(h.today, strings.NewReplacer("RUN", h.run, "sha256:…", digest).Replace(line))
	shell := exec.CommandContext(h.T.Context(), "/bin/sh", "-c", line)
	shell.Dir, shell.Env = h.dir, h.env
	output, err := shell.CombinedOutput()
	require.NoError(h.T, err, "%s\n%s", line, output)
}

// approved returns the digest of a preview.
func (h *handbook) approved(date string) string {
	h.T.Helper()
	code, preview, stderr := h.settle("run", "--coupon=42", "--date="+date, "--dry-run")
	require.Zero(h.T, code, stderr)
	digest := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(preview)
	require.NotEmpty(h.T, digest, preview)
	return digest
}

// A link to the repository leads to an existing file, and to an existing heading in it.
func TestDocuments_LinksAreValid(t *testing.T) {
	t.Parallel()
	links := 0
	known := map[string][]string{} // headings by file
	for file, text := range documents(t) {
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			path, heading, _ := strings.Cut(link[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			links++
			to := file
			if path != "" {
				to = filepath.Join(filepath.Dir(file), path)
			}
			content, err := os.ReadFile(to)
			if info, statErr := os.Stat(to); statErr == nil && info.IsDir() {
				err = nil
			}
			if assert.NoError(t, err, "%s: %s", file, link[1]) && heading != "" {
				if known[to] == nil {
					known[to] = headings(content)
				}
				assert.Contains(t, known[to], heading, "%s: %s", file, link[1])
			}
		}
	}
	require.Greater(t, links, 40)
}

var noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// headings returns the anchors that GitHub makes of the headings of a document.
func headings(document []byte) (anchors []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllSubmatch(document, -1) {
		words := noAnchor.ReplaceAllString(strings.ToLower(string(heading[1])), "")
		anchors = append(anchors, strings.ReplaceAll(words, " ", "-"))
	}
	return anchors
}

// Both READMEs have at most 120 lines, and the sentences of the English one have at most 30 words.
func TestReadme_IsShort(t *testing.T) {
	t.Parallel()
	const maxLines, maxWords = 120, 30
	for _, file := range []string{"README.md", "README.ko.md"} {
		assert.LessOrEqual(t, strings.Count(read(t, file), "\n"), maxLines, file)
	}
	prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(t, "README.md"), "\n\n")
	prose = regexp.MustCompile(`(?m)^(#.*|- |\d\. |\|)`).ReplaceAllString(prose,
		"\n\n$1") // an item or a row ends a sentence
	for _, sentence := range regexp.MustCompile(`[.?!|]\s|\n\n`).Split(prose, -1) {
		assert.LessOrEqual(t, len(strings.Fields(sentence)), maxWords, "%q", sentence)
	}
}

// Both READMEs name three commands near their top, each in an item: everything in a browser, the main job, and the
// tests. CI runs these tests.
func TestReadme_NamesTheFirstCommands(t *testing.T) {
	t.Parallel()
	takes := regexp.MustCompile("(?m)make test`? [^\n]*?(\\d+) minutes on two cores").
		FindStringSubmatch(read(t, "CONTRIBUTING.md"))
	require.NotEmpty(t, takes)
	const top = 20 // lines
	for _, file := range []string{"README.md", "README.ko.md"} {
		lines := strings.SplitN(read(t, file), "\n", top+1)
		items := regexp.MustCompile("(?m)^- `make ([a-z-]+)`").FindAllStringSubmatch(strings.Join(lines[:top], "\n"),
			-1)
		require.Len(t, items, 3, file)
		require.Regexp(t, `(?m)^`+items[0][1]+`: ## a page, the console and the APIs`, read(t, "Makefile"), file)
		require.Regexp(t, `(?m)^`+items[1][1]+`: ## a black Friday`, read(t, "Makefile"), file)
		require.Regexp(t, `(?m)^step make `+items[2][1]+`$`, read(t, ".ci/run"), "%s names %q", file, items[2][0])
		require.Regexp(t, "make test`[^\n]* "+takes[1]+"( minutes on two cores|분)", strings.Join(lines[:top], "\n"),
			"%s says how long the tests take", file)
	}
}

// Every test that a document names exists. A name that ends in … matches all tests with this beginning.
func TestDocuments_NamedTestsExist(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			code.WriteString(read(t, path))
		}
		return err
	})
	require.NoError(t, err)
	named := 0
	for file, text := range documents(t) {
		for _, match := range regexp.MustCompile("`(Test[A-Z]\\w*)(…?)").FindAllStringSubmatch(text, -1) {
			named++
			function := "func " + match[1]
			if match[2] == "" {
				function += "("
			}
			assert.True(t, strings.Contains(code.String(), function), "%s names %s, which does not exist", file,
				match[1])
		}
	}
	require.Greater(t, named, 40)
}

// CI stops at the first step that fails, and its last line names the step.
func TestCI_StopsAtTheFirstFailedStep(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	script := filepath.Join(folder, ".ci", "run")
	require.NoError(t, os.Mkdir(filepath.Dir(script), 0o700))
	require.NoError(t, os.WriteFile(script, []byte(read(t, ".ci/run")), 0o700))
	fake := "#!/bin/sh\necho \"make $1\" >> called\n[ \"$1\" != test ] || exit 7\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "make"), []byte(fake), 0o700))
	ci := exec.CommandContext(t.Context(), script)
	ci.Env = append(os.Environ(), "PATH="+folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
	output, err := ci.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode())
	require.Equal(t, "make check\nmake test\n", read(t, filepath.Join(folder, "called")))
	require.Regexp(t, `\n\.ci/run: failed: make test \(exit code 7\)\n$`, string(output))
}

// The contract and both handbooks tell what to do about each cause of the DLQ.
func TestEveryCauseIsDocumented(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"docs/design.md", "docs/operators.md", "docs/operators.ko.md"} {
		for _, cause := range coupon.Causes {
			require.Regexp(t, `(?m)^\|[^|]*`+"`"+string(cause)+"`", read(t, file), "%s has no row of %s", file, cause)
		}
	}
}
