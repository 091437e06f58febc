// Package review prepares an operator's decisions about DLQ entries: which entries are chosen, which of them are tried first, and
// why some stay under review. The settlement itself is in package settle.
package review
