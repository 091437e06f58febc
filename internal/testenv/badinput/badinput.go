// Package badinput tests that a program refuses flags, arguments and settings without a usable value.
package badinput

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// CheckAll gives every flag, argument and setting of every verb a bad value: empty, blank, zero where zero means none, twice,
// or not plain text. The program must name each and exit with code 2. run runs the program without any other configuration.
func CheckAll(t *testing.T, app *kong.Application, run func(args ...string) (code int, stderr string)) {
	tried := map[string]int{}
	for _, verb := range verbsOf(app) {
		path := strings.Fields(verb.Path())
		refused := func(v *kong.Value, how string, args ...string) {
			t.Helper()
			tried[how]++
			code, stderr := run(append(slices.Clone(path), args...)...)
			if code != 2 || !named(v, stderr) {
				t.Errorf("%s, %s: exit code %d: %s", strings.Join(path, " "), how, code, stderr)
			}
		}
		for _, flag := range slices.Concat(verb.AllFlags(false)...) {
			if flag.Name == "help" || flag.Name == "version" {
				continue // the program does nothing else then
			}
			name := "--" + flag.Name
			for _, value := range badValues(flag.Value) {
				refused(flag.Value, fmt.Sprintf("%s=%q", name, value), name+"="+value)
			}
			if !flag.IsBool() {
				refused(flag.Value, name+" with an empty argument behind it", name, "")
			}
			if !flag.IsCumulative() {
				once := name + "=" + plausible(flag.Value)
				refused(flag.Value, name+" twice", once, once)
			}
		}
		for i, arg := range verb.Positional {
			for _, value := range badValues(arg) {
				refused(arg, fmt.Sprintf("%s %q", arg.Summary(), value), append(slices.Repeat([]string{"1"}, i), value)...)
			}
		}
	}
	if len(tried) < 40 {
		t.Fatalf("only %d ways were tried", len(tried))
	}
	for _, flag := range app.Flags {
		checkSetting(t, flag, run)
	}
	for _, verb := range verbsOf(app) {
		for _, flag := range verb.Flags {
			checkSetting(t, flag, func(args ...string) (int, string) { return run(append(strings.Fields(verb.Path()), args...)...) })
		}
	}
}

// verbsOf returns the verbs of a program, or the program itself if it has none.
func verbsOf(app *kong.Application) []*kong.Node {
	if verbs := app.Leaves(true); len(verbs) > 0 {
		return verbs
	}
	return []*kong.Node{app.Node}
}

// checkSetting gives empty values to the environment variables of a flag.
func checkSetting(t *testing.T, flag *kong.Flag, run func(args ...string) (code int, stderr string)) {
	for _, env := range flag.Envs {
		for _, value := range []string{"", " "} {
			t.Run(fmt.Sprintf("%s=%q", env, value), func(t *testing.T) {
				t.Setenv(env, value)
				if code, stderr := run(); code != 2 || !named(flag.Value, stderr) {
					t.Errorf("exit code %d: %s", code, stderr)
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
		for _, text := range []string{"is empty", "is 0", "is given more than once", "has line breaks", `is "`} {
			if found && strings.HasPrefix(problem, text) {
				return true
			}
		}
	}
	return false
}

// badValues returns values without a usable meaning.
func badValues(v *kong.Value) []string {
	values := []string{"", " ", "\t"}
	element := v.Target.Type()
	if v.IsSlice() {
		element = element.Elem()
		values = append(values, ",", "1,,2", ",1")
	}
	switch {
	case v.IsBool():
		return values
	case element.Kind() == reflect.String && v.Enum == "" && v.Tag.Type != "path" && !v.Tag.Has("bytes"):
		values = append(values, "two\nlines", "\x1b[31mred", "\x9b31mred", "\u009b31mred", "\xff")
	case element.Kind() != reflect.String && !v.HasDefault:
		values = append(values, "0")
	}
	return values
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
