package connect

import (
	"os"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// GivenError is a flag, an argument or a setting that was given in a way that says nothing, or not one thing. Taken for one
// that was not given, it would switch off what it stands for.
type GivenError struct {
	Name string // --flag, <argument>, or SETTING (--flag)
	Slip Slip
}

// Slip is what is wrong with how something was given, whatever it means.
type Slip string

// The slips.
const (
	GivenEmpty    Slip = "is given empty: want a value"
	GivenZero     Slip = "is 0, which stands for none: want a number from 1"
	GivenTwice    Slip = "is given more than once: give it once"
	GivenNotPlain Slip = "has line breaks or other control characters, or is not UTF-8: give one line of plain text"
)

// Slips are all there are.
var Slips = []Slip{GivenEmpty, GivenZero, GivenTwice, GivenNotPlain}

func (e *GivenError) Error() string { return e.Name + " " + string(e.Slip) }

// anyBytes is the tag of values that are taken byte by byte: secrets, and what others wrote into Redis.
const anyBytes = "bytes"

// slip is what is wrong with how a value was given; empty when nothing is. Zero is a value only where it is not what the
// program takes when nothing is given: that a flag has a default tells them apart.
func slip(v *kong.Value, text string, target reflect.Value) Slip {
	parts := []string{text}
	if v.IsSlice() {
		parts = kong.SplitEscaped(text, v.Tag.Sep)
	}
	for _, part := range parts {
		if strings.TrimSpace(part) == "" {
			return GivenEmpty
		}
	}
	switch {
	case len(parts) == 0:
		return GivenEmpty
	case !v.HasDefault && hasZero(target):
		return GivenZero
	case isText(v, target) && !isPlain(text):
		return GivenNotPlain
	default:
		return ""
	}
}

// hasZero is whether a number, or one of several, is 0.
func hasZero(target reflect.Value) bool {
	if target.Kind() == reflect.Slice {
		for i := range target.Len() {
			if hasZero(target.Index(i)) {
				return true
			}
		}
		return false
	}
	return (target.CanInt() || target.CanUint() || target.CanFloat()) && target.IsZero()
}

func isText(v *kong.Value, target reflect.Value) bool {
	of := target.Type()
	if of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	return of.Kind() == reflect.String && v.Tag.Type != "path" && !v.Tag.Has(anyBytes)
}

func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// isDefault is whether kong fills in what nobody has given: it decodes defaults and the environment, and nothing else, right
// into the field.
func isDefault(v *kong.Value, target reflect.Value) bool {
	if target.Addr().Pointer() != v.Target.Addr().Pointer() {
		return false
	}
	for _, env := range v.Tag.Envs {
		if _, set := os.LookupEnv(env); set {
			return false
		}
	}
	return true
}

// givenTwice are the flags that were given more than once although they hold one value.
func givenTwice(kctx *kong.Context) (problems []error) {
	if kctx == nil {
		return nil
	}
	times := map[*kong.Flag]int{}
	for _, path := range kctx.Path {
		if flag := path.Flag; flag != nil && !flag.IsCumulative() {
			if times[flag]++; times[flag] == 2 {
				problems = append(problems, &GivenError{nameOf(flag.Value), GivenTwice})
			}
		}
	}
	return problems
}

// nameOf is how a person knows a value.
func nameOf(v *kong.Value) string {
	switch {
	case v.Flag == nil:
		return v.Summary()
	case len(v.Tag.Envs) > 0:
		return v.Tag.Envs[0] + " (--" + v.Name + ")"
	default:
		return "--" + v.Name
	}
}
