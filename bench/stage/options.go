package stage

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
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

// Seconds is a number between bounds.
func (o *Options) Seconds(name string, value, least, most float64, usage string) *float64 {
	return bounded(o, name, o.flags.Float64(name, value, usage+", in seconds"), least, most)
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

// Choice is some of all names, separated by commas.
func (o *Options) Choice(name string, all, standard []string) *[]string {
	chosen := new([]string)
	text := o.flags.String(name, strings.Join(standard, ","), "separated by commas, of "+strings.Join(all, ", "))
	o.checks = append(o.checks, func() error {
		for one := range strings.FieldsFuncSeq(*text, func(r rune) bool { return r == ',' }) {
			if !slices.Contains(all, one) {
				return fmt.Errorf("-%s: unknown name %q, want some of %s", name, one, strings.Join(all, ", "))
			}
			*chosen = append(*chosen, one)
		}
		return nil
	})
	return chosen
}
