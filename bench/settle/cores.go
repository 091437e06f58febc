package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// highestPriority is the nice value of a thread that does not wait for others.
const highestPriority = -20

// apart binds Redis to the first core, and MySQL and the job to the others, like separate machines. This process sends the
// applications and gets the highest priority. Otherwise the scheduler would be measured. A database that the bench did not
// start keeps its cores. It needs Linux.
func (s *stage) apart() error {
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("the scene beside needs at least two cores")
	}
	s.jobCores = fmt.Sprintf("1-%d", runtime.NumCPU()-1)
	if pid := s.Pid(); pid != 0 {
		if err := onCores(pid, s.jobCores); err != nil {
			return err
		}
	}
	if err := onCores(s.redis.Pid(), "0"); err != nil {
		return err
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	renice := []string{"renice", "-n", strconv.Itoa(highestPriority)}
	for _, thread := range threads {
		renice = append(renice, thread.Name())
	}
	if err = execute(renice...); err != nil {
		say("no high priority for the applications, so they sometimes wait for a core: %v", err)
	}
	s.urgent = err == nil
	return nil
}

// onCores binds all threads of a process to these cores, such as 1-3. Its children inherit them.
func onCores(pid int, cores string) error {
	return execute("taskset", "--all-tasks", "--cpu-list", "--pid", cores, strconv.Itoa(pid))
}

func execute(command ...string) error {
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, output)
	}
	return nil
}

// jobCommand starts the job on its cores with normal priority.
func (s *stage) jobCommand(args ...string) []string {
	if s.jobCores == "" {
		return args
	}
	args = append([]string{"taskset", "--cpu-list", s.jobCores}, args...)
	if s.urgent { // the job would inherit the priority
		args = append([]string{"nice", "-n", strconv.Itoa(-highestPriority)}, args...)
	}
	return args
}
