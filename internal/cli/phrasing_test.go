package cli

import (
	"regexp"

	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// phrasing is the phrasing of a language in the zone of Seoul.
func phrasing(l text.Language) explain.Phrasing {
	return explain.Phrasing{Locale: output.Locale{Language: l, Zone: jajeongtest.Zone}}
}

var hangul = regexp.MustCompile(`\p{Hangul}`)
