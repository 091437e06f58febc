package connect

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Setting errors are wrong use: a program that gets one exits with 2.
type SettingError struct{ problems []error }

func (e *SettingError) Error() string {
	lines := make([]string, len(e.problems))
	for i, p := range e.problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems one by one.
func (e *SettingError) Unwrap() []error { return e.problems }

// Checked is a group of settings, or a whole command, that can say what is impossible about its values.
type Checked interface{ Check() []error }

// ErrHelp is returned when help or a version was asked for and has been printed.
var ErrHelp = errors.New("help was printed")

// Parse fills cli, a struct with kong tags, from args and environment. It goes on past whatever is wrong so that every
// problem is told at once, as one *SettingError. prefixes are the environment names that belong to Jajeong alone: an
// unknown one among them is a mistyped setting.
func Parse(cli any, name, description string, args []string, stdout, stderr io.Writer, prefixes []string, options ...kong.Option) (*kong.Context, error) {
	helped := false
	options = append([]kong.Option{kong.Vars{"log_level": "info"}}, options...)
	options = append(options,
		kong.Name(name), kong.Description(description),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	)
	parser, err := kong.New(cli, options...)
	if err != nil {
		return nil, fmt.Errorf("build command line of %s: %w", name, err)
	}
	var values []error
	makeLenient(parser.Model, &values)

	var problems []error
	kctx, err := parser.Parse(args)
	for err != nil && !helped {
		problems = append(problems, fmt.Errorf("%w: see --help", err))
		var stuck *kong.ParseError
		if !errors.As(err, &stuck) || stuck.Context == nil {
			break
		}
		kctx = stuck.Context
		if kctx.Error == nil {
			break // everything was read; what is wrong is the combination
		}
		at := len(args) - len(kctx.Path[len(kctx.Path)-1].Remainder())
		if at >= len(args) {
			break
		}
		args, values = slices.Delete(slices.Clone(args), at, at+1), nil
		kctx, err = parser.Parse(args) // without the argument that it could not get past
	}
	if helped {
		return nil, ErrHelp
	}
	problems = append(problems, values...)
	problems = append(problems, givenTwice(kctx)...)
	problems = append(problems, unknownEnvironment(parser.Model, prefixes)...)
	problems = append(problems, check(reflect.ValueOf(cli).Elem())...)
	if kctx != nil && kctx.Selected() != nil {
		problems = append(problems, check(kctx.Selected().Target)...)
	}
	if len(problems) > 0 {
		return nil, &SettingError{distinct(problems)}
	}
	return kctx, nil
}

// check asks a command and the groups of settings among its fields; a verb is asked only if it is selected.
func check(command reflect.Value) (problems []error) {
	ask := func(v reflect.Value) {
		if checked, ok := v.Addr().Interface().(Checked); ok {
			problems = append(problems, checked.Check()...)
		}
	}
	ask(command)
	for i := range command.NumField() {
		field := command.Type().Field(i)
		if _, verb := field.Tag.Lookup("cmd"); !verb && field.IsExported() {
			ask(command.Field(i))
		}
	}
	return problems
}

// distinct leaves out what has been said already: a group that a command embeds without a name is asked twice.
func distinct(problems []error) []error {
	said := map[string]bool{}
	return slices.DeleteFunc(problems, func(p error) bool {
		again := said[p.Error()]
		said[p.Error()] = true
		return again
	})
}

// makeLenient makes kong collect unreadable values instead of stopping at the first.
func makeLenient(model *kong.Application, problems *[]error) {
	_ = kong.Visit(model, func(node kong.Visitable, next kong.Next) error {
		if value, ok := node.(*kong.Value); ok {
			value.Mapper = lenient{value.Mapper, problems}
		}
		return next(nil)
	})
}

type lenient struct {
	kong.Mapper
	problems *[]error
}

// Decode goes on with the default in place of a wrong value, so that no other problem follows from it.
func (l lenient) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	given, v := ctx.Scan.Peek(), ctx.Value
	err := l.Mapper.Decode(ctx, target)
	if !given.IsValue() {
		if err != nil {
			return errors.New("a value is missing") // the cause would quote what stands in its place, a password perhaps
		}
		return nil
	}
	problem := l.problem(v, given.String(), target, err)
	if problem == nil {
		return nil
	}
	*l.problems = append(*l.problems, problem)
	target.SetZero()
	if !v.HasDefault {
		return nil
	}
	fallback := kong.ScanFromTokens(kong.Token{Value: v.Default, Type: kong.FlagValueToken})
	return l.Mapper.Decode(ctx.WithScanner(fallback), target)
}

// problem is what is wrong with what was read into target.
func (l lenient) problem(v *kong.Value, text string, target reflect.Value, err error) error {
	switch {
	case err != nil, v.Enum != "" && target.Kind() == reflect.String && !v.EnumMap()[target.String()]:
		return fmt.Errorf("%s is %q: want %s", nameOf(v), text, wanted(v, target, err))
	case isDefault(v, target):
		return nil
	}
	if slip := slip(v, text, target); slip != "" {
		return &GivenError{nameOf(v), slip}
	}
	return nil
}

func wanted(v *kong.Value, target reflect.Value, err error) string {
	switch {
	case v.Enum != "":
		return "one of " + strings.Join(v.EnumSlice(), ", ")
	case target.Type() == reflect.TypeFor[time.Duration]():
		return "a duration such as 90s or 168h"
	case target.Kind() == reflect.Bool:
		return "true or false"
	case target.CanInt(), target.CanUint():
		return "a whole number"
	}
	return fmt.Sprintf("another value (%v)", err)
}

// Kubernetes gives every pod the addresses of its neighbours in names such as APPLY_API_PORT_8080_TCP.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_.*)?)$`)

// siblings are settings of one program that the other tolerates: both are often given the same ConfigMap.
var siblings = []string{"APPLY_LISTEN", "APPLY_ADMIN_LISTEN", "SETTLE_SCHEDULE", "SETTLE_TIME_ZONE", "SETTLE_PARALLEL", "SETTLE_ADMIN_LISTEN"}

func unknownEnvironment(model *kong.Application, prefixes []string) (problems []error) {
	known := map[string]bool{}
	for _, env := range siblings {
		known[env] = true
	}
	_ = kong.Visit(model, func(node kong.Visitable, next kong.Next) error {
		switch n := node.(type) {
		case *kong.Flag:
			for _, env := range n.Envs {
				known[env] = true
			}
		}
		return next(nil)
	})
	for _, pair := range os.Environ() {
		env, _, _ := strings.Cut(pair, "=")
		for _, prefix := range prefixes {
			if strings.HasPrefix(env, prefix) && !known[env] && !serviceLink.MatchString(env) {
				problems = append(problems, fmt.Errorf("%s is not a setting; known are %s", env, strings.Join(withPrefix(known, prefix), ", ")))
			}
		}
	}
	return problems
}

func withPrefix(known map[string]bool, prefix string) (names []string) {
	for name := range known {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// CheckListen tells what is wrong with an address to listen on.
func CheckListen(name, address string) []error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return []error{fmt.Errorf("%s is %q: want host:port or :port, the port a number up to 65535", name, address)}
	}
	return nil
}

// secret is a value given either directly or by the path of a file that holds it.
func secret(name, value, file string) (string, error) {
	if file == "" {
		return value, nil
	}
	if value != "" {
		return "", fmt.Errorf("%s and %s_FILE are both set: give one", name, name)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", name, err)
	}
	if value = strings.TrimRight(string(content), "\r\n"); value == "" {
		return "", fmt.Errorf("%s_FILE: %s is empty", name, file)
	}
	return value, nil
}
