package main

import (
	"encoding/csv"
	"io"
)

// csvFile writes what spreadsheets open as it is.
type csvFile struct{ *csv.Writer }

// csvWriter begins a CSV file with the mark by which Excel knows UTF-8; close ends it.
func csvWriter(w io.Writer) (csvFile, error) {
	_, err := io.WriteString(w, "\uFEFF")
	c := csv.NewWriter(w)
	c.UseCRLF = true
	return csvFile{c}, err
}

func (f csvFile) row(cells ...string) error {
	for i, cell := range cells {
		cells[i] = harmless(cell)
	}
	return f.Write(cells)
}

func (f csvFile) close() error {
	f.Flush()
	return f.Error()
}
