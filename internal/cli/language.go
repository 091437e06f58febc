package cli

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

// systemLanguage is the language of the session's locale: Korean, or else English.
func systemLanguage() text.Language {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	if strings.HasPrefix(locale, string(text.Korean)) {
		return text.Korean
	}
	return text.English
}

// languageOf is the language that a command asks for. It is known even where kong cannot read the command.
func languageOf(args []string) text.Language {
	asked := "auto"
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--lang="); ok {
			asked = value
		} else if arg == "--lang" && i+1 < len(args) {
			asked = args[i+1]
		}
	}
	if l := text.Language(asked); slices.Contains([]text.Language{text.Korean, text.English}, l) {
		return l
	}
	return systemLanguage()
}

func (p *program) locale() output.Locale { return output.Locale{Language: p.language, Zone: p.zone} }

// sprintf formats a message in the language of the session.
func (p *program) sprintf(m text.Message, args ...any) string { return p.language.Sprintf(m, args...) }

// header translates the columns of a table.
func (p *program) header(columns ...text.Message) (row table.Row) {
	for _, c := range columns {
		row = append(row, c.In(p.language))
	}
	return row
}

// headerCells translates the columns of CSV: in English they are names that programs rely on.
func (p *program) headerCells(columns ...text.Message) (cells []any) {
	for _, c := range columns {
		cells = append(cells, c.In(p.language))
	}
	return cells
}

// member is a member of a queue in a table: a user id, or a text that was written there by hand.
func member(name string) string { return output.Printable(settle.Shown(name)) }
