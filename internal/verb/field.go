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
	Default     string
	Choices     []string // of a Choice; "" is none of them
}

// formTag is the struct tag that says what a field is in a form: "date", "datetime-local", "file", "required",
// "either", or "-" for an input that no form has. Everything else follows from the type.
const formTag = "form"

func fieldsOf(path string, inputs []*kong.Value) (fields []Field) {
	for _, in := range inputs {
		form := strings.Split(in.Tag.Get(formTag), ",")
		if form[0] == "-" {
			continue
		}
		f := Field{Name: in.Name, Kind: kindOf(in, form), Required: in.Required || slices.Contains(form, "required"),
			Either: slices.Contains(form, "either"), Default: in.Default}
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
	of := elementOf(in.Target.Type()).Kind()
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
	case of >= reflect.Int && of <= reflect.Uint64 && !in.IsSlice():
		return Number
	default:
		return Text
	}
}
