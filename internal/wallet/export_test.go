package wallet

// Peek is for tests: a call peeks only after it waited for its turn.
var Peek = (*Store).peek
