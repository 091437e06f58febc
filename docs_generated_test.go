package jajeong_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
)

var update = flag.Bool("update", false, "write docs/cli.md and docs/configuration.md anew")

// generated is the line above the generated part of a document. The part above it is written by hand.
const generated = "<!-- Generated from --help by `go test -run TestGeneratedDocuments . -update`. Change the help " +
	"texts in the code. -->\n\n"

// TestGeneratedDocumentsAreCurrent compares docs/cli.md and docs/configuration.md with --help of the programs.
func TestGeneratedDocumentsAreCurrent(t *testing.T) {
	t.Parallel()
	for file, text := range map[string]string{
		"docs/cli.md":           commandReference(t),
		"docs/configuration.md": configurationReference(t),
	} {
		introduction, now, found := strings.Cut(read(t, file), generated)
		require.True(t, found, file)
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(introduction+generated+text), 0o644))
			continue
		}
		require.Equal(t, text, now, "%s is stale: run `go test -run TestGeneratedDocuments . -update`", file)
	}
}

// helpPage is the output of --help of a program or a verb.
type helpPage struct {
	usage    string
	about    string // the paragraphs before the examples
	examples string // one command per line
	flags    []flagHelp
	verbs    []string // of a program
}

// flagHelp is one flag. environment is its variable and standard its default; either may be empty.
type flagHelp struct {
	name, value, environment, standard, about string
}

func commandReference(t *testing.T) string {
	t.Helper()
	root := helpOf(t, "settle")
	var page strings.Builder
	var every []flagHelp
	for _, f := range root.flags {
		if f.environment == "" {
			every = append(every, f)
		}
	}
	fmt.Fprintf(&page, "## Every command\n\nEach command also accepts the [settings](configuration.md) as flags.\n\n%s",
		flagTable(every))
	for _, verb := range root.verbs {
		help := helpOf(t, "settle", strings.Fields(verb)...)
		fmt.Fprintf(&page, "\n## settle %s\n\n%s\n\n", verb, help.about)
		fmt.Fprintf(&page, "```\n%s\n```\n", strings.TrimSpace(help.usage+"\n\n"+help.examples))
		own := slices.DeleteFunc(help.flags, func(f flagHelp) bool { return slices.Contains(root.flags, f) })
		if len(own) > 0 {
			fmt.Fprintf(&page, "\n%s", flagTable(own))
		}
	}
	return page.String()
}

func flagTable(flags []flagHelp) string {
	var table strings.Builder
	table.WriteString("| flag | default | meaning |\n| --- | --- | --- |\n")
	for _, f := range flags {
		name := "`" + strings.TrimSuffix(f.name+"="+f.value, "=") + "`"
		if f.environment != "" {
			name += ", `" + f.environment + "`"
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", cell(name), code(f.standard), cell(f.about))
	}
	return table.String()
}

// configurationReference lists every flag that has an environment variable. Programs with the same help of a flag share
// a row.
func configurationReference(t *testing.T) string {
	t.Helper()
	type row struct {
		flagHelp
		programs []string
	}
	var rows []row
	add := func(program string, flags []flagHelp) {
		for _, f := range flags {
			if f.environment == "" {
				continue
			}
			at := slices.IndexFunc(rows, func(r row) bool { return r.flagHelp == f })
			if at < 0 {
				at = len(rows)
				rows = append(rows, row{flagHelp: f})
			}
			rows[at].programs = append(rows[at].programs, "`"+program+"`")
		}
	}
	add("apply-api", helpOf(t, "apply-api").flags)
	add("wallet-api", helpOf(t, "wallet-api").flags)
	root := helpOf(t, "settle")
	add("settle", root.flags)
	for _, verb := range root.verbs {
		own := slices.DeleteFunc(helpOf(t, "settle", strings.Fields(verb)...).flags,
			func(f flagHelp) bool { return slices.Contains(root.flags, f) })
		add("settle "+verb, own)
	}
	names := map[string]bool{}
	for i, r := range rows {
		rows[i].programs = withoutLeaves(r.programs, root.verbs)
		names[r.environment] = true
	}
	require.Equal(t, slices.Sorted(maps.Keys(names)), connect.Names, "connect.Names has the settings of all programs")
	slices.SortStableFunc(rows, func(a, b row) int { return len(b.programs) - len(a.programs) })

	var page strings.Builder
	page.WriteString("| variable | flag | default | program | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&page, "| `%s` | `%s` | %s | %s | %s |\n", r.environment, r.name, code(r.standard),
			strings.Join(r.programs, ", "), cell(r.about))
	}
	return page.String()
}

// withoutLeaves names a group of verbs, such as settle events, instead of all of its verbs.
func withoutLeaves(programs, verbs []string) (short []string) {
	for _, program := range programs {
		group := program[:strings.LastIndex(program, " ")+1]
		of := func(verb string) bool { return strings.HasPrefix("`settle "+verb, group) }
		all := strings.Count(group, " ") == 2 && !slices.ContainsFunc(verbs, func(verb string) bool {
			return of(verb) && !slices.Contains(programs, "`settle "+verb+"`")
		})
		if all {
			program = strings.TrimSpace(group) + "`"
		}
		if !slices.Contains(short, program) {
			short = append(short, program)
		}
	}
	return short
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func code(text string) string {
	if text == "" {
		return "–"
	}
	value, more, _ := strings.Cut(text, ", ")
	if more != "" {
		more = ", " + more
	}
	return cell("`" + value + "`" + more)
}

var helpPages sync.Map // those that helpOf has read, by program and verb

// helpOf returns a copy of the page for the caller.
func helpOf(t *testing.T, program string, verb ...string) helpPage {
	t.Helper()
	call := fmt.Sprint(program, verb)
	known, ok := helpPages.Load(call)
	if !ok {
		known = readHelpOf(t, program, verb...)
		helpPages.Store(call, known)
	}
	page := known.(helpPage)
	page.flags, page.verbs = slices.Clone(page.flags), slices.Clone(page.verbs)
	return page
}

func readHelpOf(t *testing.T, program string, verb ...string) helpPage {
	t.Helper()
	command := exec.CommandContext(t.Context(), testenv.Build(t, "./cmd/"+program),
		append(slices.Clone(verb), "--help")...)
	command.Env = []string{"LC_ALL=C", "COLUMNS=110"}
	output, err := command.Output()
	require.NoError(t, err, "%s %q", program, verb)
	page := readHelp(string(output))
	require.NotEmpty(t, page.usage, "%s %q", program, verb)
	require.NotEmpty(t, page.about, "%s %q", program, verb)
	require.True(t, len(page.flags) > 0 || len(verb) > 0, program)
	return page
}

var (
	flagLine  = regexp.MustCompile(`^ {2,6}(?:-\w, +)?(--[a-z-]+)(?:=(\S+))?(?: {2,}(\S.*))?$`)
	verbLine  = regexp.MustCompile(`^  (\S+(?: \S+)*)  +\S`)
	variable  = regexp.MustCompile(` \(\$([A-Z_]+)\)\.?$`)
	byDefault = regexp.MustCompile(`(?:^| )Default (.+?)\.?$`)
)

func readHelp(text string) (page helpPage) {
	usage, rest, _ := strings.Cut(text, "\n\n")
	page.usage = strings.TrimPrefix(strings.Join(strings.Fields(usage), " "), "Usage: ")
	rest, flags, _ := strings.Cut(rest, "\nFlags:\n")
	flags, _, _ = strings.Cut(flags, "\nSettings, which ")
	flags, _, _ = strings.Cut(flags, "\nRun \"")
	about, verbs, _ := strings.Cut(rest, "\nCommands:\n")
	page.about, page.examples = readAbout(about)
	page.flags = readFlags(flags)
	for line := range strings.Lines(verbs) {
		if match := verbLine.FindStringSubmatch(line); match != nil {
			page.verbs = append(page.verbs, match[1])
		}
	}
	return page
}

// readAbout separates the description from the examples, which are the indented lines.
func readAbout(text string) (about, examples string) {
	var paragraphs, commands []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		switch {
		case paragraph == "Example:" || paragraph == "Examples:":
		case strings.HasPrefix(paragraph, "    "):
			commands = append(commands, regexp.MustCompile(`(?m)^    `).ReplaceAllString(paragraph, ""))
		default:
			line := strings.Join(strings.Fields(paragraph), " ")
			paragraphs = append(paragraphs, regexp.MustCompile(`<[^>]+>`).ReplaceAllString(line, "`$0`")) // not HTML
		}
	}
	return strings.Join(paragraphs, "\n\n"), strings.Join(commands, "\n")
}

func readFlags(text string) (flags []flagHelp) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if match := flagLine.FindStringSubmatch(line); match != nil {
			flags = append(flags, flagHelp{name: match[1], value: match[2], about: match[3]})
		} else if more := strings.TrimSpace(line); more != "" && len(flags) > 0 {
			last := &flags[len(flags)-1]
			last.about = strings.TrimSpace(last.about + " " + more)
		}
	}
	flags = slices.DeleteFunc(flags, func(f flagHelp) bool { return f.name == "--help" })
	for i := range flags {
		f := &flags[i]
		if match := variable.FindStringSubmatch(f.about); match != nil {
			f.environment, f.about = match[1], strings.TrimSuffix(f.about, match[0])
		}
		if match := byDefault.FindStringSubmatch(f.about); match != nil {
			f.standard, f.about = match[1], strings.TrimSuffix(f.about, match[0])
		}
		f.about = strings.TrimSuffix(f.about, ".")
	}
	return flags
}
