// Package userlist reads lists of users as people have them: CSV as Excel saves it, one id a line, or NDJSON.
package userlist

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

const (
	MaxUsers = 1_000_000
	MaxBytes = 32 << 20

	// column is the name of the ids, in the header of a CSV file and in an object of NDJSON.
	column = "user_id"
	// maxWrong bounds how many wrong lines are named.
	maxWrong = 10
)

// List has the users of a file.
type List struct {
	Users      []coupon.UserID // each once, in ascending order
	Duplicates int             // lines that name a user again
}

// Digest is sha256:… of the users, whatever their order in the file.
func (l List) Digest() string {
	sum := sha256.New()
	for _, user := range l.Users {
		fmt.Fprintln(sum, user.Member())
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Read reads a whole list. It returns a *text.UsageError, or several joined, if anything in it is wrong.
func Read(from io.Reader) (List, error) {
	limited := &io.LimitedReader{R: from, N: MaxBytes + 1}
	r := &reader{lines: bufio.NewReader(limited)}
	err := r.read()
	switch {
	case limited.N == 0 || len(r.users) > MaxUsers:
		return List{}, text.UsageErrorf(text.ListTooLong, MaxUsers, MaxBytes>>20)
	case len(r.wrong) > 0:
		return List{}, errors.Join(r.wrong...)
	case err != nil:
		return List{}, err
	case len(r.users) == 0:
		return List{}, text.UsageErrorf(text.ListEmpty, column)
	}
	read := len(r.users)
	slices.Sort(r.users)
	list := List{Users: slices.Compact(r.users)}
	list.Duplicates = read - len(list.Users)
	return list, nil
}

type reader struct {
	lines *bufio.Reader
	users []coupon.UserID
	wrong []error
}

// read finds out which form the file has. A file of Excel begins with a byte order mark.
func (r *reader) read() error {
	start, err := r.lines.Peek(3)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return text.UsageErrorf(text.ListUnread, err)
	case bytes.HasPrefix(start, []byte{0xff, 0xfe}) || bytes.HasPrefix(start, []byte{0xfe, 0xff}):
		return text.UsageErrorf(text.ListNotUTF8)
	case bytes.HasPrefix(start, []byte("PK")):
		return text.UsageErrorf(text.ListIsWorkbook)
	case bytes.HasPrefix(start, []byte{0xef, 0xbb, 0xbf}):
		_, _ = r.lines.Discard(3) // no error: they were peeked at
	}
	for {
		c, _, err := r.lines.ReadRune()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return text.UsageErrorf(text.ListUnread, err)
		}
		if !strings.ContainsRune(" \t\r\n", c) {
			_ = r.lines.UnreadRune() // no error: it was just read
			if c == '{' {
				return r.readJSON()
			}
			return r.readCSV()
		}
	}
}

// add notes the user of a line. A value of many letters is shortened in the error.
func (r *reader) add(line int, value string) (enough bool) {
	user := coupon.ParseUserID(value)
	switch {
	case user > 0:
		r.users = append(r.users, user)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		r.wrong = []error{text.UsageErrorf(text.ListNotUTF8)} // each line would be wrong
		return true
	case strings.ContainsAny(value, "eE.") && strings.ContainsAny(value, "0123456789"):
		r.wrong = append(r.wrong, text.UsageErrorf(text.ListNumberShortened, line, coupon.ShownMember(value)))
	default:
		r.wrong = append(r.wrong, text.UsageErrorf(text.ListWrongUser, line, coupon.ShownMember(value)))
	}
	return len(r.wrong) >= maxWrong || len(r.users) > MaxUsers
}

// readCSV reads one column, or the column user_id of several. Excel separates them by commas, semicolons or tabs.
func (r *reader) readCSV() error {
	first, _ := r.lines.Peek(r.lines.Size()) // an error means that the file is shorter
	if end := bytes.IndexByte(first, '\n'); end >= 0 {
		first = first[:end]
	}
	c := csv.NewReader(r.lines)
	c.FieldsPerRecord, c.ReuseRecord, c.TrimLeadingSpace = -1, true, true
	for _, separator := range ";\t" {
		if bytes.ContainsRune(first, separator) && !bytes.ContainsRune(first, ',') {
			c.Comma = separator
		}
	}
	at := -1
	for {
		record, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return text.UsageErrorf(text.ListUnread, err)
		}
		line, _ := c.FieldPos(0)
		if at < 0 { // the first record
			if at, err = header(record); err != nil {
				return err
			}
			if at >= 0 {
				continue
			}
			if at = 0; len(record) > 1 {
				return text.UsageErrorf(text.ListWithoutHeader, column)
			}
			if name := record[0]; utf8.ValidString(name) && !strings.ContainsAny(name, "0123456789") {
				return text.UsageErrorf(text.ListOtherHeader, coupon.ShownMember(name), column)
			}
		}
		if len(strings.TrimSpace(strings.Join(record, ""))) == 0 { // Excel leaves empty rows
			continue
		}
		value := ""
		if at < len(record) {
			value = strings.TrimSpace(record[at])
		}
		if r.add(line, value) {
			return nil
		}
	}
}

// header returns the place of the column of ids; -1 if the record is no header.
func header(record []string) (at int, err error) {
	at = -1
	for i, name := range record {
		if !strings.EqualFold(strings.TrimSpace(name), column) {
			continue
		}
		if at >= 0 {
			return at, text.UsageErrorf(text.ListTwoColumns, column)
		}
		at = i
	}
	return at, nil
}

// readJSON reads an object a line. An id may be a number or a string.
func (r *reader) readJSON() error {
	lines := bufio.NewScanner(r.lines)
	for line := 1; lines.Scan(); line++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		id, err := idIn(lines.Bytes())
		if err != nil {
			return text.UsageErrorf(text.ListWrongJSON, line, err)
		}
		if r.add(line, strings.Trim(id, `"`)) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return text.UsageErrorf(text.ListUnread, err)
	}
	return nil
}

// idIn returns the id of an object, as it is written. Two of them are an error: nobody knows who is meant.
func idIn(line []byte) (id string, err error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	if _, err := decoder.Token(); err != nil {
		return "", err
	}
	for decoder.More() {
		name, err := decoder.Token()
		var value json.RawMessage
		if err == nil {
			err = decoder.Decode(&value)
		}
		switch {
		case err != nil:
			return "", err
		case name != column:
		case id != "":
			return "", fmt.Errorf("%q twice", column)
		default:
			id = string(value)
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return "", err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("more than one value")
	}
	return id, nil
}
