package main

import (
	"fmt"
	"runtime"
	"strconv"

	"github.com/jajeong/jajeong/bench/process"
)

// apart binds Redis to the first core, and MySQL and the job to the others, like separate machines. This process sends the
// applications and gets the highest priority. Otherwise the scheduler would be measured. A database that the bench did not
// start keeps its cores. It needs Linux.
func (s *stage) apart() error {
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("the scene beside needs at least two cores")
	}
	s.jobCores = fmt.Sprintf("1-%d", runtime.NumCPU()-1)
	if pid := s.Pid(); pid != 0 {
		if err := process.Bind(pid, s.jobCores); err != nil {
			return err
		}
	}
	if err := process.Bind(s.redis.Pid(), "0"); err != nil {
		return err
	}
	err := process.Raise()
	if err != nil {
		say("no high priority for the applications, so they sometimes wait for a core: %v", err)
	}
	s.urgent = err == nil
	return nil
}

// jobCommand starts the job on its cores with normal priority.
func (s *stage) jobCommand(args ...string) []string {
	if s.jobCores == "" {
		return args
	}
	args = append([]string{"taskset", "--cpu-list", s.jobCores}, args...)
	if s.urgent { // the job would inherit the priority
		args = append([]string{"nice", "-n", strconv.Itoa(-process.HighestPriority)}, args...)
	}
	return args
}
