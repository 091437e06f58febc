package cli

import (
	"regexp"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

// speaker is a program of a language, in the zone of Seoul.
func speaker(l text.Language) *program {
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		panic(err)
	}
	return &program{language: l, zone: seoul}
}

var hangul = regexp.MustCompile(`\p{Hangul}`)
