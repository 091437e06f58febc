package verb

import (
	"io"

	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
)

// Call is one run of a verb in the process of the console.
type Call struct {
	By             signin.Person // who runs it
	Language       text.Language
	Verb           *Verb
	Values         Values
	Stdin          io.Reader // the file of a field that takes one; nil: none
	Stdout, Stderr io.Writer

	Progress func(done, of int) // is told how far a long run is; may be nil
}

// Answer is how a run ended.
type Answer struct {
	Exit    int
	Invalid bool              // the values were refused; nothing ran
	Wrong   map[string]string // what is wrong with a value, by its name; Stderr has the rest
	Errs    []error           // the errors that were printed
}
