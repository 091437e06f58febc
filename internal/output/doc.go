// Package output writes what people and programs read: tables, CSV, JSON, and streams that keep foreign control characters from
// the terminal.
package output
