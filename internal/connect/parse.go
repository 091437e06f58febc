package connect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/text"
)

// SettingError has all problems with flags, arguments and settings. The program then exits with 2.
type SettingError struct{ problems []error }

func (e *SettingError) Error() string { return errors.Join(e.problems...).Error() }

func (e *SettingError) Unwrap() []error { return e.problems }

var ErrHelp = errors.New("help was printed")

type Program struct {
	Name     string
	Language text.Language // language of the help
}

// Parse fills cli, a struct with kong tags. It returns one *SettingError with all problems, or ErrHelp after --help.
func Parse(cli any, program Program, args []string, stdout, stderr io.Writer,
	options ...kong.Option) (*kong.Context, error) {
	helped := false
	options = append([]kong.Option{kong.Vars{"log_level": "info"}}, options...)
	options = append(options,
		kong.Name(program.Name), kong.Help(printHelp(program.Language)),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 110}),
	)
	parser, err := kong.New(cli, options...)
	if err != nil {
		return nil, fmt.Errorf("build command line of %s: %w", program.Name, err)
	}
	var values []*text.FieldError
	makeLenient(parser.Model, &values)

	var problems []error
	given := len(args)
	kctx, err := parser.Parse(args)
	for err != nil && !helped {
		var stuck *kong.ParseError
		if !errors.As(err, &stuck) || stuck.Context == nil {
			problems = append(problems, text.UsageErrorf(text.UnreadableCommand, err))
			break
		}
		if kctx = stuck.Context; kctx.Error == nil {
			break // all arguments were read; combination reports what is missing
		}
		at := len(args) - len(kctx.Path[len(kctx.Path)-1].Remainder())
		if at >= len(args) {
			problems = append(problems, text.UsageErrorf(text.UnreadableCommand, err))
			break
		}
		end, problem := unread(kctx, err, args[at:], at+given-len(args))
		if text.Is(problem, text.MisspeltCommand) { // the rest would be read as what it is not
			return nil, &SettingError{[]error{problem}}
		}
		problems = append(problems, problem)
		args, values = slices.Delete(slices.Clone(args), at, at+end), nil
		kctx, err = parser.Parse(args) // again, without the unreadable arguments
	}
	if helped {
		return nil, ErrHelp
	}
	if kctx != nil && kctx.Error == nil && len(commandsOf(kctx)) > 0 { // what a command needs comes after the command
		return nil, &SettingError{append(problems, unselected(kctx)...)}
	}
	wrong := invalid(reflect.ValueOf(cli).Elem())
	if kctx != nil && kctx.Selected() != nil {
		wrong = append(wrong, invalid(kctx.Selected().Target)...)
	}
	problems = slices.Concat(problems, givenTwice(kctx), unknownEnvironment(parser.Model), combination(kctx),
		besides(values, wrong))
	if len(problems) == 0 && err != nil {
		problems = append(problems, text.UsageErrorf(text.UnreadableCommand, err))
	}
	if len(problems) > 0 {
		return nil, &SettingError{distinct(problems)}
	}
	return kctx, nil
}

// unread returns how many of the arguments that are left the problem with the first concerns, and the problem. before
// is how many arguments stand before them. It repeats nothing that may be a password: no value, and no argument that is
// not almost a command. What follows an unknown flag may be its value.
func unread(kctx *kong.Context, err error, left []string, before int) (concerns int, problem error) {
	missing, ok := errors.AsType[*valueMissing](err)
	commands := commandsOf(kctx)
	switch {
	case ok:
		return withValue(kctx, left), text.UsageErrorf(text.NoValueFor, missing.flag)
	case strings.HasPrefix(left[0], "-"):
		flag, _, valued := strings.Cut(left[0], "=")
		if !valued {
			concerns = withValue(kctx, left)
		}
		return max(concerns, 1), unknownFlag(kctx, flag, before+1)
	}
	if right := nearest(left[0], commands); right != "" {
		return 1, text.UsageErrorf(text.MisspeltCommand, left[0], right)
	}
	return 1, text.UsageErrorf(text.UnexpectedArgument, before+1)
}

// withValue returns 2 if what follows a flag may be its value: it is neither a command nor a flag, known or misspelt.
func withValue(kctx *kong.Context, left []string) (concerns int) {
	if len(left) < 2 || slices.Contains(commandsOf(kctx), left[1]) {
		return 1
	}
	flag, _, _ := strings.Cut(left[1], "=")
	name, is := strings.CutPrefix(flag, "--")
	if is && (slices.Contains(flagsOf(kctx), name) || nearest(name, flagsOf(kctx)) != "") {
		return 1
	}
	return 2
}

func flagsOf(kctx *kong.Context) (names []string) {
	for _, one := range kctx.Flags() {
		names = append(names, one.Name)
	}
	return names
}

// unknownFlag does not repeat letters after a known flag. They may be a password: --redis-passwordPASSWORD.
func unknownFlag(kctx *kong.Context, flag string, number int) error {
	if letters := []rune(flag); !strings.HasPrefix(flag, "--") {
		return text.UsageErrorf(text.UnknownFlag, string(letters[:min(2, len(letters))])) // -pPASSWORD
	}
	name, names := strings.TrimPrefix(flag, "--"), flagsOf(kctx)
	if right := nearest(name, names); right != "" {
		return text.UsageErrorf(text.MisspeltFlag, flag, "--"+right)
	}
	if slices.ContainsFunc(names, func(known string) bool { return strings.HasPrefix(name, known) }) {
		return text.UsageErrorf(text.UnexpectedArgument, number)
	}
	return text.UsageErrorf(text.UnknownFlag, flag)
}

// nodeOf returns the command that was selected, or else the program.
func nodeOf(kctx *kong.Context) *kong.Node {
	if node := kctx.Selected(); node != nil {
		return node
	}
	return kctx.Model.Node
}

// commandsOf returns the names of the commands that may come next.
func commandsOf(kctx *kong.Context) (names []string) {
	for _, child := range nodeOf(kctx).Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

// combination reports missing flags and mutually exclusive flags. kong checks them only if all values are valid.
func combination(kctx *kong.Context) (problems []error) {
	if kctx == nil || kctx.Error != nil {
		return nil
	}
	var missing []string
	for _, path := range kctx.Path {
		exclusive := map[string]*kong.Flag{}
		for _, flag := range path.Flags {
			if flag.Required && !flag.Set {
				missing = append(missing, flag.Summary())
			}
			for _, group := range flag.Xor {
				switch other := exclusive[group]; {
				case !flag.Set:
				case other != nil:
					problems = append(problems, text.UsageErrorf(text.FlagsExclusive, other.Name, flag.Name))
				default:
					exclusive[group] = flag
				}
			}
		}
	}
	if len(missing) > 0 {
		problems = append(problems, text.UsageErrorf(text.FlagsMissing, strings.Join(missing, ", ")))
	}
	return append(problems, unselected(kctx)...)
}

func unselected(kctx *kong.Context) (problems []error) {
	for _, argument := range nodeOf(kctx).Positional {
		if argument.Required && !argument.Set {
			problems = append(problems, text.UsageErrorf(text.ArgumentMissing, strconv.Quote(argument.Summary())))
		}
	}
	var verbs []string
	for _, name := range commandsOf(kctx) {
		verbs = append(verbs, strconv.Quote(name))
	}
	if len(verbs) > 0 {
		problems = append(problems, text.UsageErrorf(text.CommandMissing, strings.Join(verbs, ", ")))
	}
	return problems
}

// validator is an interface of kong. invalid calls it for all settings, while kong stops at the first problem.
type validator interface{ Validate() error }

// invalid validates a command and its groups of settings, but not its subcommands: Parse validates the selected one.
func invalid(command reflect.Value) (problems []error) {
	validate := func(v reflect.Value) {
		if checked, ok := v.Addr().Interface().(validator); ok {
			problems = append(problems, text.Split(checked.Validate())...)
		}
	}
	validate(command)
	for i := range command.NumField() {
		field := command.Type().Field(i)
		if _, verb := field.Tag.Lookup("cmd"); !verb && field.IsExported() {
			validate(command.Field(i))
		}
	}
	return problems
}

// distinct removes repeated problems: settings in an anonymous field of a command are validated twice.
func distinct(problems []error) []error {
	said := map[string]bool{}
	return slices.DeleteFunc(problems, func(p error) bool {
		again := said[p.Error()]
		said[p.Error()] = true
		return again
	})
}

// besides returns the problems that are about no value that has one already, after those.
func besides(known []*text.FieldError, problems []error) (all []error) {
	for _, k := range known {
		all = append(all, k)
	}
	for _, p := range problems {
		about, ok := errors.AsType[*text.FieldError](p)
		if !ok || !slices.ContainsFunc(known, func(k *text.FieldError) bool { return k.Field == about.Field }) {
			all = append(all, p)
		}
	}
	return all
}

func makeLenient(model *kong.Application, problems *[]*text.FieldError) {
	_ = kong.Visit(model, func(node kong.Visitable, next kong.Next) error {
		if value, ok := node.(*kong.Value); ok {
			value.Mapper = lenient{value.Mapper, problems}
		}
		return next(nil)
	})
}

type lenient struct {
	kong.Mapper
	problems *[]*text.FieldError
}

// Decode records a wrong value as a problem and continues with the default, so that no second problem follows.
func (l lenient) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	given, v := ctx.Scan.Peek(), ctx.Value
	parts := partsOf(v, given)
	if v.IsSlice() && given.IsValue() {
		ctx.Scan.Pop()
		ctx.Scan.PushTyped(kong.JoinEscaped(parts, v.Tag.Sep), kong.FlagValueToken)
	}
	err := l.Mapper.Decode(ctx, target)
	if !given.IsValue() {
		if err != nil {
			return &valueMissing{"--" + v.Name} // the cause would quote the next argument, which may be a password
		}
		return nil
	}
	problem := l.problem(v, given.String(), parts, target, err)
	if problem == nil {
		return nil
	}
	*l.problems = append(*l.problems, text.About(v.Name, problem))
	target.SetZero()
	if !v.HasDefault {
		return nil
	}
	fallback := kong.ScanFromTokens(kong.Token{Value: v.Default, Type: kong.FlagValueToken})
	return l.Mapper.Decode(ctx.WithScanner(fallback), target)
}

type valueMissing struct{ flag string }

func (*valueMissing) Error() string { return text.ValueMissing.In(text.English) }

func (l lenient) problem(v *kong.Value, given string, parts []string, target reflect.Value, err error) error {
	odd := slices.IndexFunc(parts, func(part string) bool {
		return part != "" && (isNumber(target) && !numberForm.MatchString(part) || isDuration(target) &&
			!durationForm.MatchString(part) || v.Enum != "" && v.IsSlice() && !v.EnumMap()[part])
	})
	switch {
	case mayHavePassword(v, given):
		return text.UsageErrorf(text.GivenPassword, nameOf(v))
	case odd >= 0:
		return text.UsageErrorf(text.WrongValueOf, nameOf(v), parts[odd], wanted(v, target, err))
	case err != nil, v.Enum != "" && target.Kind() == reflect.String && !v.EnumMap()[target.String()]:
		return text.UsageErrorf(text.WrongValueOf, nameOf(v), given, wanted(v, target, err))
	case isDefault(v, target):
		return nil
	default:
		return unusable(v, given, parts, target)
	}
}

func wanted(v *kong.Value, target reflect.Value, err error) error {
	switch {
	case v.Enum != "":
		// "" is a flag not given.
		values := slices.DeleteFunc(v.EnumSlice(), func(value string) bool { return value == "" })
		return text.Errorf(text.WantOneOf, strings.Join(values, ", "))
	case target.Type() == reflect.TypeFor[time.Duration]():
		return text.Errorf(text.WantDuration)
	case target.Kind() == reflect.Bool:
		return text.Errorf(text.WantBool)
	case isNumber(target) && elementOf(target).Kind() == reflect.Float64:
		return text.Errorf(text.WantNumber)
	case isNumber(target):
		return text.Errorf(text.WantWholeNumber)
	default:
		return text.Errorf(text.WantAnother, err)
	}
}

// FillHelp fills in the help texts of a command and its subcommands. A flag or argument with a help tag keeps the text
// of the tag.
func FillHelp(l text.Language, node *kong.Node) {
	verb := node.FullPath()
	if m, known := text.Help(verb, ""); known {
		node.Help = m.In(l)
	}
	node.Detail = text.Detail(verb, l)
	for _, flag := range node.Flags {
		fillValue(l, verb, "--"+flag.Name, flag.Value)
	}
	for _, argument := range node.Positional {
		fillValue(l, verb, "<"+argument.Name+">", argument)
	}
	for _, child := range node.Children {
		FillHelp(l, child)
	}
}

func fillValue(l text.Language, verb, name string, v *kong.Value) {
	if v.Help != "" && name != "--help" {
		return
	}
	if m, known := text.Help(verb, name); known {
		v.Help = strings.ReplaceAll(m.In(l), "${default}", v.Default)
	}
}

// printHelp fills in the help texts when they are printed: no other call of the program needs them.
func printHelp(l text.Language) kong.HelpPrinter {
	var pairs []string
	for _, heading := range text.HelpHeadings {
		pairs = append(pairs, heading.In(text.English), heading.In(l))
	}
	headings := strings.NewReplacer(pairs...)
	return func(options kong.HelpOptions, ctx *kong.Context) error {
		FillHelp(l, ctx.Model.Node)
		settings := ""
		if ctx.Selected() != nil {
			settings = namesOfSettings(l, ctx.Model)
		}
		var printed bytes.Buffer
		stdout := ctx.Stdout
		ctx.Stdout = &printed
		err := kong.DefaultHelpPrinter(options, ctx)
		ctx.Stdout = stdout
		if err == nil {
			_, err = headings.WriteString(stdout, printed.String()+settings)
		}
		return err
	}
}

// namesOfSettings hides the settings of the program from the help of a command, and returns their names as its end.
func namesOfSettings(l text.Language, app *kong.Application) string {
	lines := []string{"", l.Sprintf(text.HelpSettings, app.Name), " "}
	for _, flag := range app.Flags {
		if flag.Hidden || flag.Name == "help" {
			continue
		}
		flag.Hidden = true
		if last := len(lines) - 1; len(lines[last])+len(flag.Name) > maxHelpLine {
			lines = append(lines, " ")
		}
		lines[len(lines)-1] += " --" + flag.Name
	}
	return strings.Join(lines, "\n") + "\n"
}

const maxHelpLine = 75
