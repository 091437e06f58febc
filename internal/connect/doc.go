// Package connect opens what Jajeong's programs talk to, always in the same way: Redis without hidden replays, MySQL
// with the session settings the code relies on, zap as the one logger. It also reads settings from flags and
// environment, refusing wrong ones all at once.
package connect
