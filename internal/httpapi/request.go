package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/text/language"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// Site serves an API, to pages of other origins by these methods. nothing answers the addresses that mux does not have.
func Site(mux *http.ServeMux, nothing http.HandlerFunc, origins []string, methods ...string) http.Handler {
	mux.HandleFunc("/", nothing)
	clean := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would answer an unclean path with a redirect that contains text from the request.
		if unclean(r.URL) {
			nothing(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	return Identified(CrossOrigin(origins, clean, methods...))
}

// unclean reports whether the path has an empty element, an element . or .., or no leading slash.
func unclean(u *url.URL) bool {
	path := u.Path
	if u.RawPath != "" {
		path = u.EscapedPath()
	}
	return path == "" || path[0] != '/' || strings.Contains(path, "//") || strings.Contains(path, "/.") && hasDots(path)
}

func hasDots(path string) bool {
	for element := range strings.SplitSeq(path, "/") {
		if element == "." || element == ".." {
			return true
		}
	}
	return false
}

// ParseID parses an id from 1 to 2^64-1. It refuses leading zeros: otherwise one user could apply as 7 and as 07.
func ParseID[ID coupon.CouponID | coupon.UserID | coupon.UserCouponID](text string) (ID, bool) {
	id, err := strconv.ParseUint(text, 10, 64)
	return ID(id), err == nil && text[0] >= '1' && text[0] <= '9'
}

// maxAcceptLanguage is in bytes. A longer header is ignored; browsers send less.
const maxAcceptLanguage = 512

var (
	languages = []language.Tag{language.Korean, language.English} // the first is the default
	matcher   = language.NewMatcher(languages)
)

// negotiated remembers the languages of the headers that were seen: matching takes longer than the rest of a response.
var negotiated, _ = lru.New[string, language.Tag](maxNegotiated) // fails only for a size below 1

const maxNegotiated = 2048

// Negotiate returns the language of a response, Korean or English.
func Negotiate(header http.Header) language.Tag {
	accept := strings.Join(header["Accept-Language"], ",")
	if accept == "" || len(accept) > maxAcceptLanguage {
		return languages[0]
	}
	if tag, ok := negotiated.Get(accept); ok {
		return tag
	}
	_, index := language.MatchStrings(matcher, accept)
	negotiated.Add(accept, languages[index])
	return languages[index]
}

// LanguageOf is Negotiate for the sentences of verbs.
func LanguageOf(header http.Header) text.Language {
	if Negotiate(header) == language.English {
		return text.English
	}
	return text.Korean
}
