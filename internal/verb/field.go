package verb

import (
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/text"
)

// Kind is what people enter into a field. The values are those of HTML.
type Kind string

const (
	Number Kind = "number"
	Text   Kind = "text"
	Check  Kind = "checkbox"
	Choice Kind = "select"
	Date   Kind = "date"
	Time   Kind = "datetime-local"
	File   Kind = "file"
)

// Field is an argument or a flag that people enter.
type Field struct {
	Name        string
	Kind        Kind
	Label, Hint text.Message
	Required    bool
	Either      bool // one of the fields that have this must be given
	Each        Kind // what each of several values is; empty: it takes one
	Default     string
	Choices     []string // of a Choice; "" is none of them
}

// formTag is the struct tag that says what a field is in a form: "date", "datetime-local", "file", "required",
// "either", or "-" for an input that no form and no request has. Everything else follows from the type. A setting is no
// field.
const formTag = "form"

func fieldsOf(path string, inputs []*kong.Value) (fields []Field) {
	for _, in := range inputs {
		form := strings.Split(in.Tag.Get(formTag), ",")
		if form[0] == "-" || len(in.Tag.Envs) > 0 {
			continue
		}
		f := Field{Name: in.Name, Kind: kindOf(in, form), Required: in.Required || slices.Contains(form, "required"),
			Either: slices.Contains(form, "either"), Default: in.Default}
		if in.IsSlice() {
			f.Each = Text
			if isNumber(elementOf(in.Target.Type())) {
				f.Each = Number
			}
		}
		f.Label, f.Hint = text.FieldOf(path, in.Name)
		if f.Kind == Choice {
			f.Choices = in.EnumSlice()
			if !f.Required && f.Default == "" && !slices.Contains(f.Choices, "") {
				f.Choices = append([]string{""}, f.Choices...)
			}
		}
		fields = append(fields, f)
	}
	return fields
}

func kindOf(in *kong.Value, form []string) Kind {
	is := elementOf(in.Target.Type())
	if is.Kind() == reflect.Pointer { // nil: not given
		is = is.Elem()
	}
	switch {
	case slices.Contains(form, string(Date)):
		return Date
	case slices.Contains(form, string(Time)):
		return Time
	case slices.Contains(form, string(File)):
		return File
	case in.Enum != "":
		return Choice
	case in.IsBool():
		return Check
	case isNumber(is) && !in.IsSlice():
		return Number
	default:
		return Text
	}
}

func isNumber(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64 }

// Listed is the value of a field that takes several.
func Listed(values []string) string { return kong.JoinEscaped(values, ',') }
