// Package verb describes the verbs of settle. A verb is declared once: a struct with the tags of kong, which names its
// arguments and flags, and its method Declare, which says who may use it where. The command line, the forms of the
// console and the management API are made of that.
package verb

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
)

// Subject is what a verb changes. Its page has the link to the form.
type Subject int

const (
	Nothing Subject = iota
	Coupon
	Holder // the application or the coupon of one user
)

// Declaration is what the struct of a verb does not say.
type Declaration struct {
	Title   text.Message
	On      Subject
	Right   signin.Right
	RightOf func(Values) signin.Right // instead of Right, where the values decide; may be nil
	Actions []approval.Action         // those that its plans have; the first is the usual one

	// API is the method and the path of the verb in the management API, such as "POST /v1/coupons/{coupon}/close";
	// empty: it is not there. A place of the path is an argument or a flag. A verb that only reads has GET.
	API string
	// Upload is the method and the path to which a program sends the file that the verb takes, as the whole body. The
	// other values are in the query.
	Upload string
}

// Declared is a verb that is more than a command. With a title it has a form at the console, and its struct has the
// flags of a change.
type Declared interface{ Declare() Declaration }

// Values are arguments and flags by their names. An empty value is one that was not given.
type Values map[string]string

// Verb is one verb.
type Verb struct {
	Declaration
	Path   string  // such as "coupon close"
	Form   bool    // the console has a form for it
	Fields []Field // what people enter

	inputs []*kong.Value
	is     reflect.Type
}

// Verbs are all verbs of the program.
type Verbs []*Verb

// Of returns the verbs of a command line.
func Of(app *kong.Application) (all Verbs) {
	for _, leaf := range app.Leaves(true) {
		v := &Verb{Path: leaf.Path(), inputs: connect.Inputs(leaf), is: leaf.Target.Type()}
		if declared, ok := leaf.Target.Addr().Interface().(Declared); ok {
			v.Declaration = declared.Declare()
			v.Form = v.Title != (text.Message{})
			v.Fields = fieldsOf(v.Path, v.inputs)
		}
		all = append(all, v)
	}
	return all
}

// New returns the empty struct of the verb.
func (v *Verb) New() any { return reflect.New(v.is).Interface() }

// Name is the usual action of the verb; of a verb without actions, the last word of its path.
func (v *Verb) Name() string {
	if len(v.Actions) > 0 {
		return string(v.Actions[0])
	}
	return v.Path[strings.LastIndex(v.Path, " ")+1:]
}

// Asks follows the path of a verb that only asks for the approval of a change.
const Asks = " --ask"

// Asked is the path of the verb, with Asks if a call with these values only asks for an approval.
func (v *Verb) Asked(values Values) string {
	if values["ask"] != "" {
		return v.Path + Asks
	}
	return v.Path
}

// RightFor returns the right that a call of the verb needs.
func (v *Verb) RightFor(values Values) signin.Right {
	if v.RightOf != nil {
		return v.RightOf(values)
	}
	return v.Right
}

// ActionOf returns the action of the plan that a call makes; empty for a verb without plans.
func (v *Verb) ActionOf(values Values) approval.Action {
	switch {
	case len(v.Actions) == 0:
		return ""
	case values[acceptGap] == "true" && slices.Contains(v.Actions, approval.AcceptGap):
		return approval.AcceptGap
	default:
		return v.Actions[0]
	}
}

const acceptGap = string(approval.AcceptGap) // the flag has the name of the action

// At returns the verb with a path; nil if there is none.
func (all Verbs) At(path string) *Verb {
	return all.find(func(v *Verb) bool { return v.Path == path })
}

// Named returns the verb with a form and a name; nil if there is none.
func (all Verbs) Named(name string) *Verb {
	return all.find(func(v *Verb) bool { return v.Form && v.Name() == name })
}

func (all Verbs) find(is func(v *Verb) bool) *Verb {
	if at := slices.IndexFunc(all, is); at >= 0 {
		return all[at]
	}
	return nil
}

// OfPlan returns the verb that a plan was made by, and its values; nil if there is none.
func (all Verbs) OfPlan(plan approval.Plan) (*Verb, Values) {
	v := all.find(func(v *Verb) bool { return slices.Contains(v.Actions, plan.Action) })
	if v == nil {
		return nil, nil
	}
	values := Values{}
	maps.Copy(values, plan.Arguments)
	if plan.Action == approval.AcceptGap {
		values[acceptGap] = "true"
	}
	for _, in := range v.inputs {
		switch kind := elementOf(in.Target.Type()); {
		case plan.Coupon > 0 && kind == reflect.TypeFor[coupon.CouponID]():
			values[in.Name] = plan.Coupon.String()
		case plan.User > 0 && in.Name == userName:
			values[in.Name] = plan.User.Member()
		}
	}
	return v, values
}

// userName is the flag of the user whom a verb concerns.
const userName = "user"

func elementOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice {
		return t.Elem()
	}
	return t
}

// TakesFile reports whether the verb takes a file from a form or a request.
func (v *Verb) TakesFile() bool {
	return slices.ContainsFunc(v.Fields, func(f Field) bool { return f.Kind == File })
}

// Has reports whether the verb has an argument or a flag.
func (v *Verb) Has(name string) bool {
	return slices.ContainsFunc(v.inputs, func(in *kong.Value) bool { return in.Name == name })
}

// Command is how a person types the verb with these values: its words, its arguments, its own flags, and those that
// every change has.
func (v *Verb) Command(values Values) []string {
	var arguments, flags, common []string
	for _, in := range v.inputs {
		typed := "--" + in.Name
		if !in.IsBool() {
			typed += "=" + values[in.Name]
		}
		switch value := values[in.Name]; {
		case value == "" || in.IsBool() && value != "true":
		case in.Flag == nil:
			arguments = append(arguments, value)
		case in.Tag.Get(formTag) == "-":
			common = append(common, typed)
		default:
			flags = append(flags, typed)
		}
	}
	return slices.Concat([]string{"settle"}, strings.Fields(v.Path), arguments, flags, common)
}
