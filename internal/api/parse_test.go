package api

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/text/language"
)

// An id has one spelling.
func FuzzParseID(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := parseID(text)
		if ok && (id == 0 || strconv.FormatUint(id, 10) != text) {
			t.Errorf("%q was read as %d", text, id)
		}
		number, err := strconv.ParseUint(text, 10, 64)
		if !ok && err == nil && number > 0 && strconv.FormatUint(number, 10) == text {
			t.Errorf("%q was refused", text)
		}
	})
}

// Every Accept-Language gives one of the two languages; a header that is too long counts as none; several headers count as one
// list.
func FuzzNegotiate(f *testing.F) {
	f.Fuzz(func(t *testing.T, accept string) {
		got := negotiate(http.Header{"Accept-Language": {accept}})
		if got != language.Korean && got != language.English {
			t.Fatalf("%q led to %s", accept, got)
		}
		if len(accept) > maxAcceptLanguage && got != language.Korean {
			t.Errorf("%d bytes led to %s", len(accept), got)
		}
		if several := negotiate(http.Header{"Accept-Language": strings.Split(accept, ",")}); several != got {
			t.Errorf("%q led to %s, in several headers to %s", accept, got, several)
		}
		if accept == "" && got != language.Korean {
			t.Error("without a wish it is Korean")
		}
	})
}
