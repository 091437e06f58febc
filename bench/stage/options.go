package stage

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options are the flags of a subject. Each has its bounds.
type Options struct {
	flags  *flag.FlagSet
	checks []func() error
}

// NewOptions has no flag yet.
func NewOptions(subject string) *Options {
	return &Options{flags: flag.NewFlagSet("bench "+subject, flag.ContinueOnError)}
}

// Parse reads the arguments.
func (o *Options) Parse(args []string) error {
	if err := o.flags.Parse(args); err != nil {
		return err
	}
	if o.flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", o.flags.Arg(0))
	}
	for _, check := range o.checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// Command is the command line with all flags that were set but one.
func (o *Options) Command(but string) string {
	command := []string{o.flags.Name()}
	o.flags.Visit(func(f *flag.Flag) {
		if f.Name != but {
			command = append(command, "-"+f.Name, f.Value.String())
		}
	})
	return strings.Join(command, " ")
}

// String is a flag of any text.
func (o *Options) String(name, usage string) *string { return o.flags.String(name, "", usage) }

// Other is the path of another build of a program, which takes turns with this one.
func (o *Options) Other() *string {
	return o.String("other", "`path` of another build, which takes turns with this one")
}

// Int is a number between bounds.
func (o *Options) Int(name string, value, least, most int, usage string) *int {
	n := o.flags.Int(name, value, usage)
	return bounded(o, name, n, least, most)
}

// Rounds is how often everything is measured.
func (o *Options) Rounds(value int) *int {
	return o.Int("rounds", value, 1, 100, "number of measurements; the median counts")
}

// Duration is one between bounds, in seconds.
func (o *Options) Duration(name string, value, least, most float64, usage string) *time.Duration {
	seconds := bounded(o, name, o.flags.Float64(name, value, usage+", in seconds"), least, most)
	d := new(time.Duration)
	o.checks = append(o.checks, func() error {
		*d = time.Duration(*seconds * float64(time.Second))
		return nil
	})
	return d
}

func bounded[T cmp.Ordered](o *Options, name string, value *T, least, most T) *T {
	o.checks = append(o.checks, func() error {
		if !(*value >= least && *value <= most) {
			return fmt.Errorf("-%s is %v: want %v to %v", name, *value, least, most)
		}
		return nil
	})
	return value
}

// Choose is a flag for some of all, by their names: those of standard unless it is set, or all if there is no standard.
func Choose[T any](o *Options, flag string, all []T, name func(T) string, standard ...string) *[]T {
	var names []string
	for _, one := range all {
		names = append(names, name(one))
	}
	if standard == nil {
		standard = names
	}
	chosen := new([]T)
	text := o.flags.String(flag, strings.Join(standard, ","), "separated by commas, of "+strings.Join(names, ", "))
	o.checks = append(o.checks, func() error {
		wanted := strings.FieldsFunc(*text, func(r rune) bool { return r == ',' })
		for _, one := range wanted {
			if !slices.Contains(names, one) {
				return fmt.Errorf("-%s: unknown name %q, want some of %s", flag, one, strings.Join(names, ", "))
			}
		}
		for i, one := range all {
			if slices.Contains(wanted, names[i]) {
				*chosen = append(*chosen, one)
			}
		}
		return nil
	})
	return chosen
}

// Scene is a part of a subject. It returns its section of the page.
type Scene[M any] struct {
	Name string
	Play func(m M, ctx context.Context) (string, error)
}

// Scenes is the flag for the scenes of a subject.
func Scenes[M any](o *Options, all []Scene[M], standard ...string) *[]Scene[M] {
	return Choose(o, "scenes", all, func(s Scene[M]) string { return s.Name }, standard...)
}

// Play plays scenes one after another.
func Play[M any](ctx context.Context, m M, scenes []Scene[M]) (text string, err error) {
	for _, s := range scenes {
		section, err := s.Play(m, ctx)
		if err != nil {
			return "", fmt.Errorf("scene %s: %w", s.Name, err)
		}
		text += section + "\n"
	}
	return text, nil
}
