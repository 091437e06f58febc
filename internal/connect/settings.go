package connect

import (
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/keysfile"
	"github.com/jajeong/jajeong/internal/text"
)

func CheckListen(name, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil || !isPort(port) {
		return text.UsageErrorf(text.WrongListen, name, address)
	}
	return nil
}

func isPort(given string) bool {
	number, err := strconv.ParseUint(given, 10, 16)
	return err == nil && strconv.FormatUint(number, 10) == given
}

// maxSecret is in bytes. A DSN or a password is far shorter.
const maxSecret = 64 << 10

// isAddress reports whether given is host:port, such as redis:6379 or [::1]:6379, without a scheme, a user and a
// password.
func isAddress(given string) bool {
	host, port, err := net.SplitHostPort(given)
	return err == nil && isPort(port) && port != "0" && host != "" && !strings.ContainsAny(host, "@/?#= ")
}

// secret returns the secret in a file that a setting names; nothing without a file. Apart from that
// of MYSQL_DSN, passwords are in files alone: every account of a machine can read its command lines, and an environment
// is inherited and printed.
func secret(setting, file string) (value string, err error) {
	if file == "" {
		return "", nil
	}
	content, err := keysfile.Read(setting, file, maxSecret)
	if err != nil {
		return "", err
	}
	if value = strings.TrimRight(string(content), "\r\n"); value == "" {
		return "", text.UsageErrorf(text.SecretEmpty, setting, file)
	}
	return value, nil
}

// anyBytes is the struct tag of settings that may have any bytes: secrets, and members of Redis sets.
const anyBytes = "bytes"

// partsOf returns the elements of a list, without the blanks around them unless they may have any bytes, or else the
// value itself.
func partsOf(v *kong.Value, given kong.Token) []string {
	whole := given.String()
	if !v.IsSlice() {
		return []string{whole}
	}
	separator := string(v.Tag.Sep)
	parts := kong.SplitEscaped(whole, v.Tag.Sep)
	if whole == "" || strings.HasSuffix(whole, separator) && !strings.HasSuffix(whole, `\`+separator) {
		parts = append(parts, "") // SplitEscaped leaves the last empty part out
	}
	for i, part := range parts {
		if !v.Tag.Has(anyBytes) {
			parts[i] = strings.TrimSpace(part)
		}
	}
	return parts
}

// numberForm is a canonical decimal. kong reads 010 as 8, 0x1F as 31 and 1_0 as 10.
var numberForm = regexp.MustCompile(`^(0|-?[1-9][0-9]*)(\.[0-9]+)?$`)

// durationForm is made of canonical decimals, such as 90s or 1h30m. time.ParseDuration takes 010m and .5h, too.
var durationForm = regexp.MustCompile(`^-?(0|((0|[1-9][0-9]*)(\.[0-9]+)?[a-zµ]+)+)$`)

func isDuration(target reflect.Value) bool {
	return elementOf(target) == reflect.TypeFor[time.Duration]()
}

// isNumber reports whether a flag has a number, or a list of numbers. A duration is none.
func isNumber(target reflect.Value) bool {
	of := elementOf(target)
	kind := of.Kind()
	return !isDuration(target) && (kind >= reflect.Int && kind <= reflect.Uint64 || kind == reflect.Float64)
}

// elementOf returns the type of a value, of what it points to, or of the elements of a list.
func elementOf(target reflect.Value) reflect.Type {
	if kind := target.Kind(); kind == reflect.Slice || kind == reflect.Pointer {
		return target.Type().Elem()
	}
	return target.Type()
}

// withPassword is an address or a DSN with a password, such as redis://:PASSWORD@redis:6379 or user:PASSWORD@kafka.
var withPassword = regexp.MustCompile(`(?i)://.*@|:.*@.*[:(]|^[^/=@]*:[^=@]*@[^=@]*$|passw.*=`)

// mayHavePassword reports whether a setting that takes no secret seems to have a password in it. No error shows its
// value.
func mayHavePassword(v *kong.Value, given string) bool {
	return v.Flag != nil && len(v.Tag.Envs) > 0 && !v.Tag.Has(anyBytes) && withPassword.MatchString(given)
}

// unusable returns a problem if a value is empty, has control characters, or is zero although the flag has no default.
func unusable(v *kong.Value, given string, parts []string, target reflect.Value) error {
	isEmpty := func(part string) bool { return strings.TrimSpace(part) == "" }
	switch {
	case slices.ContainsFunc(parts, isEmpty):
		return text.UsageErrorf(text.GivenEmpty, nameOf(v))
	case !v.HasDefault && hasZero(target):
		return text.UsageErrorf(text.GivenZero, nameOf(v))
	case isText(v, target) && (!utf8.ValidString(given) || strings.ContainsFunc(given, unicode.IsControl)):
		return text.UsageErrorf(text.GivenNotPlain, nameOf(v))
	default:
		return nil
	}
}

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
	return elementOf(target).Kind() == reflect.String && v.Tag.Type != "path" && !v.Tag.Has(anyBytes)
}

// isDefault reports whether a value is the default. kong decodes defaults and the environment directly into the field.
func isDefault(v *kong.Value, target reflect.Value) bool {
	if target.Addr().Pointer() != v.Target.Addr().Pointer() {
		return false
	}
	return !slices.ContainsFunc(v.Tag.Envs, func(env string) bool {
		_, set := os.LookupEnv(env)
		return set
	})
}

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
