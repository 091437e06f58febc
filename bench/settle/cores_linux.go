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

// onCores binds all threads of a process and their children to these cores.
func onCores(pid int, cores ...int) error {
	var set unix.CPUSet
	for _, core := range cores {
		set.Set(core)
	}
	err := eachThread(pid, func(thread int) error { return unix.SchedSetaffinity(thread, &set) })
	if err != nil {
		return fmt.Errorf("bind process %d to cores %v: %w", pid, cores, err)
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
		if err := do(id); err != nil && !errors.Is(err, unix.ESRCH) { // the thread may have ended
			return err
		}
	}
	return nil
}

// highestPriority is the nice value of a thread that does not wait for others.
const highestPriority = -20

// apart binds Redis to the first core, and MySQL and the job to the others, like separate machines. This process sends the
// applications and gets the highest priority. Otherwise the scheduler would be measured. A database that the bench did not
// start keeps its cores.
func (s *stage) apart() error {
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("the scene beside needs at least two cores")
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
	err := eachThread(os.Getpid(), func(thread int) error { return unix.Setpriority(unix.PRIO_PROCESS, thread, highestPriority) })
	if err != nil {
		say("no high priority for the applications, so they sometimes wait for a core: %v", err)
	}
	s.urgent = err == nil
	return nil
}

// jobCommand starts the job on its cores with normal priority.
func (s *stage) jobCommand(args ...string) []string {
	if s.jobCores == nil {
		return args
	}
	cores := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(s.jobCores)), ","), "[]")
	args = append([]string{"taskset", "--cpu-list", cores}, args...)
	if s.urgent { // the job would inherit the priority
		args = append([]string{"nice", "-n", strconv.Itoa(-highestPriority)}, args...)
	}
	return args
}
