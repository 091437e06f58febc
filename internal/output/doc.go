// Package output writes tables, CSV, JSON and progress, and replaces control characters in foreign texts.
package output
