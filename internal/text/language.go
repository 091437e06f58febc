package text

import (
	"cmp"
	"slices"
	"strings"
)

// LanguageOf is the language that a command asks for with --lang; otherwise that of the session's locale: Korean, or else
// English. The command need not be valid.
func LanguageOf(args []string, getenv func(string) string) Language {
	asked := ""
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--lang="); ok {
			asked = value
		} else if arg == "--lang" && i+1 < len(args) {
			asked = args[i+1]
		}
	}
	if l := Language(asked); slices.Contains([]Language{Korean, English}, l) {
		return l
	}
	if strings.HasPrefix(cmp.Or(getenv("LC_ALL"), getenv("LC_MESSAGES"), getenv("LANG")), string(Korean)) {
		return Korean
	}
	return English
}
