package connect

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/text"
)

// anyBytes is the tag of values that may have any bytes: secrets, and members of Redis that others wrote.
const anyBytes = "bytes"

// slip finds a value that is given but empty. It must not count as missing, since that could switch a feature off. Zero is empty
// unless the flag has a default.
func slip(v *kong.Value, given string, target reflect.Value) error {
	parts := []string{given}
	if v.IsSlice() {
		parts = kong.SplitEscaped(given, v.Tag.Sep)
	}
	isEmpty := func(part string) bool { return strings.TrimSpace(part) == "" }
	switch {
	case len(parts) == 0, slices.ContainsFunc(parts, isEmpty):
		return text.UsageErrorf(text.GivenEmpty, nameOf(v))
	case !v.HasDefault && hasZero(target):
		return text.UsageErrorf(text.GivenZero, nameOf(v))
	case isText(v, target) && !isPlain(given):
		return text.UsageErrorf(text.GivenNotPlain, nameOf(v))
	default:
		return nil
	}
}

// hasZero reports whether a number, or one in a list, is 0.
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

func isPlain(given string) bool {
	return utf8.ValidString(given) && !strings.ContainsFunc(given, unicode.IsControl)
}

// isDefault reports whether kong decodes a default. kong decodes defaults and the environment directly into the field, and
// nothing else.
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

// givenTwice reports flags with a single value that were given more than once.
func givenTwice(kctx *kong.Context) (problems []error) {
	if kctx == nil {
		return nil
	}
	times := map[*kong.Flag]int{}
	for _, path := range kctx.Path {
		if flag := path.Flag; flag != nil && !flag.IsCumulative() {
			if times[flag]++; times[flag] == 2 {
				problems = append(problems, text.UsageErrorf(text.GivenTwice, nameOf(flag.Value)))
			}
		}
	}
	return problems
}

// nameOf is the name of a value for messages.
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
