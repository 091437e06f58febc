package users

import "fmt"

// Kind is what is wrong with the settings, or with the shape of the table.
type Kind string

// Kinds, with the Args that their texts take.
const (
	WrongTable          Kind = "WRONG_TABLE"            // table
	WrongIDColumn       Kind = "WRONG_ID_COLUMN"        // column
	WrongStatusColumn   Kind = "WRONG_STATUS_COLUMN"    // column
	WrongNumberOfValues Kind = "WRONG_NUMBER_OF_VALUES" // how many, most
	WrongValue          Kind = "WRONG_VALUE"            // value, most letters
	ValuesOfNothing     Kind = "VALUES_OF_NOTHING"      // values

	NoTable           Kind = "NO_TABLE"            // table
	NotMadeYet        Kind = "NOT_MADE_YET"        // table: the one that `settle migrate` makes
	NotATable         Kind = "NOT_A_TABLE"         // table, what it is
	NoIDColumn        Kind = "NO_ID_COLUMN"        // table, column
	IDNotANumber      Kind = "ID_NOT_A_NUMBER"     // table, column, type
	IDWithoutKey      Kind = "ID_WITHOUT_KEY"      // table, column
	NoStatusColumn    Kind = "NO_STATUS_COLUMN"    // table, column
	StatusUnreadable  Kind = "STATUS_UNREADABLE"   // table, column, type
	ValueNotANumber   Kind = "VALUE_NOT_A_NUMBER"  // table, column, type, value
	ValueNeverInTable Kind = "VALUE_NEVER_IN_ENUM" // table, column, type, value
)

// texts say what is wrong and what to do.
var texts = map[Kind]string{
	WrongTable:          "USER_TABLE is %q: want a table, or database.table, of letters, digits, _ and $",
	WrongIDColumn:       "USER_ID_COLUMN is %q: want a column of letters, digits, _ and $",
	WrongStatusColumn:   "USER_STATUS_COLUMN is %q: want a column of letters, digits, _ and $, or - if there is none",
	WrongNumberOfValues: "USER_ACTIVE_VALUES has %d values: want 1 to %d, separated by commas",
	WrongValue:          "USER_ACTIVE_VALUES has %q: want values of 1 to %d letters without spaces around them",
	ValuesOfNothing:     "USER_STATUS_COLUMN is - and USER_ACTIVE_VALUES is %q: without a status column everybody is active; take USER_ACTIVE_VALUES away or name the column",

	NoTable:           "the users cannot be read: there is no table %s, or this account may not read it. Set USER_TABLE, or grant SELECT of its columns as sql/grants.sql does",
	NotMadeYet:        "the users cannot be read: there is no table %s, or this account may not read it. Run `settle migrate`, set USER_TABLE, or grant SELECT of its columns as sql/grants.sql does",
	NotATable:         "the users cannot be read: %s is a %s, which has no key to find a user by. Set USER_TABLE to the table behind it",
	NoIDColumn:        "the users cannot be read: %s has no column %s, or this account may not read it. Set USER_ID_COLUMN, or grant SELECT of it",
	IDNotANumber:      "the users cannot be read: %s.%s is %s, and user ids are whole numbers. Set USER_ID_COLUMN to an integer column",
	IDWithoutKey:      "the users cannot be read: %s.%s has no primary or unique key of its own, so that each applicant would cost a reading of the whole table. Add one, or set USER_ID_COLUMN",
	NoStatusColumn:    "the users cannot be read: %s has no column %s, or this account may not read it. Set USER_STATUS_COLUMN, to - if there is none and everybody is active, or grant SELECT of it",
	StatusUnreadable:  "the users cannot be read: %s.%s is %s. Set USER_STATUS_COLUMN to a CHAR, VARCHAR, TEXT, ENUM, BIT or integer column, or to - if everybody is active",
	ValueNotANumber:   "the users cannot be read: %s.%s is %s, and USER_ACTIVE_VALUES has %q. Set it to the numbers that mean active, such as 1",
	ValueNeverInTable: "the users cannot be read: %s.%s is %s, which never is %q. Set USER_ACTIVE_VALUES to those of its values that mean active",
}

// Problem is why the users cannot be read right. Repeating does not help.
type Problem struct {
	Kind Kind
	Args []any
}

func problem(kind Kind, args ...any) *Problem { return &Problem{kind, args} }

func (p *Problem) Error() string { return fmt.Sprintf(texts[p.Kind], p.Args...) }

// Setup says that the error is about how things are set up.
func (p *Problem) Setup() bool { return true }

// Kinds are all there are, with their texts in English.
func Kinds() map[Kind]string { return texts }
