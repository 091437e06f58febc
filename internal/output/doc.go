// Package output writes tables, CSV, JSON and progress, and streams without control characters of foreign texts.
package output
