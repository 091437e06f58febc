package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// onCores keeps every thread of a process, and what they start, on these cores.
func onCores(pid int, cores ...int) error {
	var set unix.CPUSet
	for _, core := range cores {
		set.Set(core)
	}
	err := eachThread(pid, func(thread int) error { return unix.SchedSetaffinity(thread, &set) })
	if err != nil {
		return fmt.Errorf("keep process %d on cores %v: %w", pid, cores, err)
	}
	return nil
}

func eachThread(pid int, do func(thread int) error) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := do(id); err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended
			return err
		}
	}
	return nil
}

// mostUrgent is the priority at which a thread need not wait for others.
const mostUrgent = -20

// apart gives Redis the first core, and MySQL and the job the others, as on machines of their own; who applies, this
// process, goes first on all: on shared cores one would measure how the system shares them. A database that was not
// started here stays where it is.
func (s *stage) apart() error {
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("the scene beside needs two cores")
	}
	for core := 1; core < runtime.NumCPU(); core++ {
		s.jobCores = append(s.jobCores, core)
	}
	if pid := s.Pid(); pid != 0 {
		if err := onCores(pid, s.jobCores...); err != nil {
			return err
		}
	}
	if err := onCores(s.redis.Pid(), 0); err != nil {
		return err
	}
	err := eachThread(os.Getpid(), func(thread int) error { return unix.Setpriority(unix.PRIO_PROCESS, thread, mostUrgent) })
	if err != nil {
		say("who applies does not go first, and waits for a core at times: %v", err)
	}
	s.urgent = err == nil
	return nil
}

// jobCommand is how the job is started where it belongs, with the usual priority.
func (s *stage) jobCommand(args ...string) []string {
	if s.jobCores == nil {
		return args
	}
	cores := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(s.jobCores)), ","), "[]")
	args = append([]string{"taskset", "--cpu-list", cores}, args...)
	if s.urgent { // which the job would inherit
		args = append([]string{"nice", "-n", strconv.Itoa(-mostUrgent)}, args...)
	}
	return args
}
