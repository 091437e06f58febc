package settle

import (
	"context"
	"unicode/utf8"

	"github.com/jajeong/jajeong/internal/text"
)

// Shown is a member of the line as people are shown it: whoever wrote it there may have written a megabyte.
func Shown(member string) string {
	if letters := []rune(member[:min(len(member), 4*mostShown+utf8.UTFMax)]); len(letters) > mostShown {
		return string(letters[:mostShown]) + "…"
	}
	return member
}

// mostShown is more than twice the digits of the longest user id.
const mostShown = 50

// ToldToStop is why nothing goes on when ctx has ended.
func ToldToStop(ctx context.Context) error {
	return text.RetryableErrorf(text.Stopped, context.Cause(ctx))
}
