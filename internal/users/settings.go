package users

import (
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jajeong/jajeong/internal/text"
)

// NoStatus stands for a table without a status column. It is no name that a column can have here, and it is not empty: an
// empty setting is a mistake.
const NoStatus = "-"

// Settings are what the shop's table of users is called, and which of its words mean that somebody is active.
type Settings struct {
	UserTable        string   `name:"user-table" env:"USER_TABLE" default:"user" placeholder:"TABLE"`
	UserIDColumn     string   `name:"user-id-column" env:"USER_ID_COLUMN" default:"id" placeholder:"COLUMN"`
	UserStatusColumn string   `name:"user-status-column" env:"USER_STATUS_COLUMN" default:"status" placeholder:"COLUMN"`
	UserActiveValues []string `name:"user-active-values" env:"USER_ACTIVE_VALUES" default:"ACTIVE" placeholder:"VALUE,…"`
}

const (
	mostValues  = 32
	mostLetters = 64 // of a name, as the servers have it, and of a value
	// defaultValue is what USER_ACTIVE_VALUES is unless it is given.
	defaultValue = "ACTIVE"
	// ownTable is the one that `settle migrate` makes where there is none.
	ownTable = "user"
)

// name is what the servers take without surprises: anything else is more likely a slip.
var name = regexp.MustCompile(`^[A-Za-z0-9_$]{1,64}$`)

// Validate reports what is impossible about the settings.
func (s *Settings) Validate() error {
	var problems []error
	for _, part := range strings.SplitN(s.UserTable, ".", 2) {
		if !name.MatchString(part) {
			problems = append(problems, text.UsageErrorf(text.WrongTable, s.UserTable))
			break
		}
	}
	if !name.MatchString(s.UserIDColumn) {
		problems = append(problems, text.UsageErrorf(text.WrongIDColumn, s.UserIDColumn))
	}
	if s.UserStatusColumn == NoStatus {
		if len(s.UserActiveValues) != 1 || s.UserActiveValues[0] != defaultValue {
			problems = append(problems, text.UsageErrorf(text.ValuesWithoutColumn, strings.Join(s.UserActiveValues, ",")))
		}
		return errors.Join(problems...)
	}
	if !name.MatchString(s.UserStatusColumn) {
		problems = append(problems, text.UsageErrorf(text.WrongStatusColumn, s.UserStatusColumn))
	}
	if n := len(s.UserActiveValues); n == 0 || n > mostValues {
		problems = append(problems, text.UsageErrorf(text.WrongNumberOfValues, n, mostValues))
	}
	for _, value := range s.UserActiveValues {
		letters := utf8.RuneCountInString(value)
		if letters == 0 || letters > mostLetters || !utf8.ValidString(value) || strings.TrimSpace(value) != value {
			problems = append(problems, text.UsageErrorf(text.WrongActiveValue, value, mostLetters))
		}
	}
	return errors.Join(problems...)
}

// Directory is the table of these settings.
func (s Settings) Directory() *Directory { return &Directory{settings: s} }

// Default are the settings of a shop whose table is the one that `settle migrate` makes.
func Default() Settings {
	return Settings{UserTable: ownTable, UserIDColumn: "id", UserStatusColumn: "status", UserActiveValues: []string{defaultValue}}
}
