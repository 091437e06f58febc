// Package coupon is the vocabulary of Jajeong: the types that Redis, MySQL, the settlement and the programs exchange. It
// imports the standard library alone. docs/design.md has the glossary.
//
// Enumerations start at 1, so that a value that was never set is not a valid one. Enumerations that are stored or sent are
// strings in their stored form; Scan and UnmarshalText refuse unknown ones.
package coupon
