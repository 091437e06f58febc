// Package review prepares an operator's decisions: which DLQ entries are chosen, which of them are tried first, and why some stay
// under review; and how a run repeats the preview that the operator has confirmed. The settlement itself is in package settle.
package review
