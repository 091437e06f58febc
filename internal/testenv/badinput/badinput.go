// Package badinput tests that a program refuses flags, arguments and settings without a usable value.
package badinput

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// CheckProgram is CheckAll of a program with one verb. Its run ends at once if it begins by mistake.
func CheckProgram(t *testing.T, settings any,
	run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	parser, err := kong.New(settings, kong.Vars{"version": "", "log_level": "info"}, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	CheckAll(t, parser.Model, func(args ...string) (int, string) {
		var stdout, stderr bytes.Buffer
		code := run(ended, args, &stdout, &stderr)
		if stdout.Len() > 0 {
			t.Errorf("%v: %s", args, &stdout)
		}
		return code, stderr.String()
	})
}

// CheckAll gives every flag, argument and setting of every verb a bad value: empty, blank, zero where zero means none,
// a number that is no canonical decimal, twice, not plain text, or an address with a password, which is not repeated.
// The program must name each and exit with code 2. One call gives a bad value to all flags of a verb, because the
// program must name all problems. A flag that several verbs share is tried with the first of them. run runs the program
// without any other configuration.
func CheckAll(t *testing.T, app *kong.Application, run func(args ...string) (code int, stderr string)) {
	tried, known := map[string]bool{}, shared{}
	for _, verb := range verbsOf(app) {
		path := strings.Fields(verb.Path())
		refused := func(inputs ...input) {
			t.Helper()
			args := slices.Clone(path)
			for _, in := range inputs {
				args = append(args, in.args...)
			}
			code, stderr := run(args...)
			for _, in := range inputs {
				tried[in.String()] = true
				if strings.Contains(stderr, password) {
					t.Errorf("%s, %s: the password is repeated: %s", strings.Join(path, " "), in, stderr)
				}
				if code != 2 || !named(in.value, stderr) {
					t.Errorf("%s, %s: exit code %d: %s", strings.Join(path, " "), in, code, stderr)
				}
			}
		}
		flags := known.news(slices.Concat(verb.AllFlags(false)...))
		for _, inputs := range rounds(flags) {
			refused(inputs...)
		}
		checkSettings(t, flags, func(args ...string) (int,
			string) {
			return run(append(slices.Clone(path), args...)...)
		})
		for i, arg := range verb.Positional {
			for _, value := range badValues(arg) {
				refused(input{arg, append(slices.Repeat([]string{"1"}, i), value)})
			}
		}
	}
	if len(tried) < 40 {
		t.Fatalf("only %d ways were tried", len(tried))
	}
}

// shared are the flags that were tried, by all that their verbs say of them.
type shared map[string]bool

// news returns the flags that were not tried yet.
func (s shared) news(flags []*kong.Flag) (news []*kong.Flag) {
	for _, flag := range flags {
		key := fmt.Sprintf("%s %v %v %v", flag.Name, flag.Target.Type(), flag.Envs, *flag.Tag)
		if !s[key] {
			s[key] = true
			news = append(news, flag)
		}
	}
	return news
}

// input is a bad value and the arguments that give it.
type input struct {
	value *kong.Value
	args  []string
}

func (in input) String() string { return fmt.Sprintf("%s %q", in.value.Summary(), in.args) }

// rounds returns all bad inputs of the flags. A round has at most one input of each flag.
func rounds(flags []*kong.Flag) (all [][]input) {
	for _, flag := range flags {
		if flag.Name == "help" || flag.Name == "version" {
			continue // the program does nothing else then
		}
		for i, args := range badFlags(flag) {
			if i == len(all) {
				all = append(all, nil)
			}
			all[i] = append(all[i], input{flag.Value, args})
		}
	}
	return all
}

// badFlags returns the arguments that give a flag a bad value.
func badFlags(flag *kong.Flag) (all [][]string) {
	name := "--" + flag.Name
	for _, value := range badValues(flag.Value) {
		all = append(all, []string{name + "=" + value})
	}
	if !flag.IsBool() {
		all = append(all, []string{name, ""})
	}
	if !flag.IsCumulative() {
		once := name + "=" + plausible(flag.Value)
		all = append(all, []string{once, once})
	}
	return all
}

// verbsOf returns the verbs of a program, or the program itself if it has none.
func verbsOf(app *kong.Application) []*kong.Node {
	if verbs := app.Leaves(true); len(verbs) > 0 {
		return verbs
	}
	return []*kong.Node{app.Node}
}

// checkSettings gives empty values to the environment variables of flags, one variable of each flag at a time.
func checkSettings(t *testing.T, flags []*kong.Flag, run func(args ...string) (code int, stderr string)) {
	var turns [][]*kong.Flag // by the place of the variable in its flag
	for _, flag := range flags {
		for i := range flag.Envs {
			if i == len(turns) {
				turns = append(turns, nil)
			}
			turns[i] = append(turns[i], flag)
		}
	}
	for i, turn := range turns {
		for _, value := range []string{"", " "} {
			t.Run(fmt.Sprintf("%s and others %q", turn[0].Envs[i], value), func(t *testing.T) {
				for _, flag := range turn {
					t.Setenv(flag.Envs[i], value)
				}
				code, stderr := run()
				for _, flag := range turn {
					if code != 2 || !named(flag.Value, stderr) {
						t.Errorf("%s: exit code %d: %s", flag.Envs[i], code, stderr)
					}
				}
			})
		}
	}
}

// named reports whether a line names this value as bad, and not as missing.
func named(v *kong.Value, stderr string) bool {
	name := "--" + v.Name
	if v.Flag == nil {
		name = v.Summary()
	} else if len(v.Tag.Envs) > 0 {
		name = v.Tag.Envs[0] + " (" + name + ")"
	}
	for line := range strings.Lines(stderr) {
		_, problem, found := strings.Cut(line, name+" ")
		for _, text := range []string{"is empty", "is 0", "is given more than once", "has line breaks",
			"seems to have a password", `is "`} {
			if found && strings.HasPrefix(problem, text) {
				return true
			}
		}
	}
	return false
}

// password must not be repeated.
const password = "hunter2"

// withPassword are addresses that belong to other settings, or nowhere.
var withPassword = []string{"redis://:" + password + "@redis:6379", "u:" + password + "@kafka:9092", "u:" + password +
	"@tcp(mysql:3306)/coupons",
	"https://u:" + password + "@shop.example.com", "host=mysql password=" + password}

// badValues returns values without a usable meaning.
func badValues(v *kong.Value) []string {
	values := []string{"", " ", "\t"}
	element := v.Target.Type()
	if v.IsSlice() {
		element = element.Elem()
		values = append(values, ",", "1,,2", ",1", "1,", "1, ,2")
	}
	zeroIsGiven := element.Kind() == reflect.Pointer // zero is not the same as nothing
	if zeroIsGiven {
		element = element.Elem()
	}
	if v.Flag != nil && len(v.Tag.Envs) > 0 && !v.Tag.Has("bytes") {
		values = append(values, withPassword...)
	}
	if isNumber(element) {
		values = append(values, "010", "0x1F", "1_0", "+1", "１")
		if v.IsSlice() {
			values = append(values, "1,010")
		}
	}
	switch {
	case v.IsBool():
		return values
	case element.Kind() == reflect.String && v.Enum == "" && v.Tag.Type != "path" && !v.Tag.Has("bytes"):
		values = append(values, "two\nlines", "\x1b[31mred", "\x9b31mred", "\u009b31mred", "\xff")
	case element.Kind() != reflect.String && !v.HasDefault && !zeroIsGiven:
		values = append(values, "0")
	}
	return values
}

func isNumber(of reflect.Type) bool {
	return of != reflect.TypeFor[time.Duration]() &&
		(of.Kind() >= reflect.Int && of.Kind() <= reflect.Uint64 || of.Kind() == reflect.Float64)
}

// plausible returns a valid value.
func plausible(v *kong.Value) string {
	switch {
	case v.IsBool():
		return "true"
	case v.Enum != "":
		return v.EnumSlice()[len(v.EnumSlice())-1]
	case v.HasDefault:
		return v.Default
	default:
		return "1"
	}
}
