// Package process runs servers as private child processes, each in a temporary folder and on a free port of 127.0.0.1.
//
// # Nothing is left behind
//
// Each server has a supervisor: a shell (supervise.sh) that reads from a pipe whose other end only this process holds.
// When this process ends for any reason, SIGKILL and panic included, the kernel closes the pipe; the shell then kills
// the server and removes its folder. Only a SIGKILL to the shell itself leaves a server behind.
//
// Linux and macOS.
package process
