// Package connect opens the connections of both programs: Redis without hidden repetitions of commands, MySQL with forced
// session variables, and zap as the only logger. It also reads settings from flags and environment, and reports all wrong
// settings together.
package connect
