package users

import (
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jajeong/jajeong/internal/text"
)

// NoStatus is the setting for a table without a status column: no possible name of one, and not empty.
const NoStatus = "-"

// Settings are the names of the table of users and its columns, and the values of the status of active users.
type Settings struct {
	UserTable        string   `name:"user-table" env:"USER_TABLE" default:"user" placeholder:"TABLE"`
	UserIDColumn     string   `name:"user-id-column" env:"USER_ID_COLUMN" default:"id" placeholder:"COLUMN"`
	UserStatusColumn string   `name:"user-status-column" env:"USER_STATUS_COLUMN" default:"status" placeholder:"COLUMN"`
	UserActiveValues []string `name:"user-active-values" env:"USER_ACTIVE_VALUES" default:"ACTIVE" placeholder:"VALUE,…"`
}

const (
	maxValues    = 32
	maxLetters   = 64       // of a name, by the limit of the servers, and of a value
	defaultValue = "ACTIVE" // of USER_ACTIVE_VALUES
	ownTable     = "user"   // that `settle migrate` creates if it is missing
)

// name allows the names that need no quotes.
var name = regexp.MustCompile(`^[A-Za-z0-9_$]{1,64}$`)

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
	if n := len(s.UserActiveValues); n == 0 || n > maxValues {
		problems = append(problems, text.UsageErrorf(text.WrongNumberOfValues, n, maxValues))
	}
	for _, value := range s.UserActiveValues {
		letters := utf8.RuneCountInString(value)
		if letters == 0 || letters > maxLetters || !utf8.ValidString(value) || strings.TrimSpace(value) != value {
			problems = append(problems, text.UsageErrorf(text.WrongActiveValue, value, maxLetters))
		}
	}
	return errors.Join(problems...)
}

func (s Settings) Directory() *Directory { return &Directory{settings: s} }

// Default are the settings for the table that `settle migrate` creates.
func Default() Settings {
	return Settings{UserTable: ownTable, UserIDColumn: "id", UserStatusColumn: "status", UserActiveValues: []string{defaultValue}}
}
