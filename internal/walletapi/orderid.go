package walletapi

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxOrderID is in characters, as the columns order_id have it.
const maxOrderID = 64

// validOrderID accepts an id that people can read and that has one spelling, because ids are compared byte by byte.
// Clients and proxies remove an empty part, . and .. from a path, also if they should have left %2F alone.
func validOrderID(id string) bool {
	for part := range strings.SplitSeq(id, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	unreadable := func(r rune) bool { return !readable(r) }
	return utf8.ValidString(id) && utf8.RuneCountInString(id) <= maxOrderID && norm.NFC.IsNormalString(id) &&
		!strings.ContainsFunc(id, unreadable)
}

// readable accepts letters, digits, punctuation and symbols. Some of these cannot be seen, such as the fillers of
// Hangul and the empty pattern of Braille. The replacement character stands for text that was lost: it would make one
// id of two.
func readable(r rune) bool {
	const emptyBraille = '\u2800'
	return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && r != emptyBraille &&
		r != unicode.ReplacementChar &&
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
