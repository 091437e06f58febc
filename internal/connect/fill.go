package connect

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/text"
)

// Fill fills a command, a struct with kong tags, with values by the names of its flags and arguments, as a form or a
// request has them. An empty value is one that was not given. It returns one *SettingError with all problems, of which
// those about one value are *text.FieldError.
func Fill(command any, values map[string]string, options ...kong.Option) error {
	parser, err := kong.New(command, append(options, kong.NoDefaultHelp())...)
	if err != nil {
		return err
	}
	var wrong []*text.FieldError
	makeLenient(parser.Model, &wrong)
	rest, exclusive := maps.Clone(values), map[string]string{}
	var problems []error
	for _, v := range Inputs(parser.Model.Node) {
		given := rest[v.Name]
		delete(rest, v.Name)
		if err := v.Reset(); err != nil {
			return err
		}
		switch {
		case given == "" && v.Required:
			problems = append(problems, text.About(v.Name, text.UsageErrorf(text.ValueNeeded, v.Name)))
		case given != "":
			target := reflect.New(v.Target.Type()).Elem() // not v.Target: that is where defaults go, which may be zero
			if v.Parse(kong.ScanFromTokens(kong.Token{Value: given, Type: kong.FlagValueToken}), target) == nil {
				v.Apply(target)
			}
			problems = append(problems, secondOf(exclusive, v)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		problems = append(problems, text.About(name, text.UsageErrorf(text.UnknownFlag, "--"+name)))
	}
	problems = append(problems, besides(wrong, invalid(reflect.ValueOf(command).Elem()))...)
	if len(problems) == 0 {
		return nil
	}
	return &SettingError{distinct(problems)}
}

// Inputs are the arguments of a command and then its flags.
func Inputs(command *kong.Node) (all []*kong.Value) {
	all = append(all, command.Positional...)
	for _, flag := range command.Flags {
		if !strings.HasPrefix(flag.Name, "help") {
			all = append(all, flag.Value)
		}
	}
	return all
}

// secondOf returns a problem if a flag excludes one that was given before.
func secondOf(given map[string]string, v *kong.Value) (problems []error) {
	if v.Flag == nil {
		return nil
	}
	for _, group := range v.Flag.Xor {
		if first := given[group]; first != "" {
			problems = append(problems, text.About(v.Name, text.UsageErrorf(text.FlagsExclusive, first, v.Name)))
		}
		given[group] = v.Name
	}
	return problems
}
