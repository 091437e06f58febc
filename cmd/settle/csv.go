package main

import (
	"encoding/csv"
	"io"
	"strings"
)

// csvFile writes what spreadsheets open as it is.
type csvFile struct{ *csv.Writer }

// csvWriter begins a CSV file with the mark by which Excel knows UTF-8; close ends it.
func csvWriter(w io.Writer) (csvFile, error) {
	_, err := io.WriteString(w, "\uFEFF")
	return csvFile{csv.NewWriter(w)}, err
}

func (f csvFile) row(cells ...string) error {
	for i, cell := range cells {
		cells[i] = neutral(cell)
	}
	return f.Write(cells)
}

func (f csvFile) close() error {
	f.Flush()
	return f.Error()
}

// neutral keeps a spreadsheet from taking what a user wrote for a formula.
func neutral(cell string) string {
	if strings.IndexAny(cell, "=+-@\t\r\n") == 0 {
		return "'" + cell
	}
	return cell
}
