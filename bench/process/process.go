// Package process reads the resources of a process from the kernel, and binds it to cores.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// PeakMemory is the peak resident memory of a process in bytes. known is false after its end. The ru_maxrss of a child would
// include the memory of its parent, which it shares until exec.
func PeakMemory(pid int) (peak int64, known bool) { return memory(pid, "VmHWM:") }

// ResidentMemory is the resident memory of a process in bytes. known is false after its end.
func ResidentMemory(pid int) (resident int64, known bool) { return memory(pid, "VmRSS:") }

func memory(pid int, field string) (size int64, known bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, found := strings.Cut(string(status), field)
	if err != nil || !found {
		return 0, false
	}
	var kib int64
	_, err = fmt.Sscan(after, &kib)
	return kib * 1024, err == nil
}

// tick is the unit of CPU times in /proc.
const tick = 10 * time.Millisecond

// CPUTime is the CPU time of a process so far, or 0 if it is unknown.
func CPUTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name may contain any character
	fields := strings.Fields(after)
	const user, system = 11, 12
	if len(fields) <= system {
		return 0
	}
	var used time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		used += time.Duration(n) * tick
	}
	return used
}

// Busy is the CPU time of all cores since the start of the machine, or 0 if it is unknown.
func Busy() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(first)
	const idle, iowait, steal = 4, 5, 8 // the fields after steal are included in others
	if len(fields) <= steal {
		return 0
	}
	var busy time.Duration
	for i, field := range fields[:steal+1] {
		if i == 0 || i == idle || i == iowait {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		busy += time.Duration(n) * tick
	}
	return busy
}

// Bind binds all threads of a process to these cores, such as 1-3. Its children inherit them. It needs Linux.
func Bind(pid int, cores string) error {
	return Execute("taskset", "--all-tasks", "--cpu-list", "--pid", cores, strconv.Itoa(pid))
}

// HighestPriority is the nice value of a thread that does not wait for others.
const HighestPriority = -20

// Raise gives all threads of this process the highest priority. Its children inherit it. It needs Linux.
func Raise() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	renice := []string{"renice", "-n", strconv.Itoa(HighestPriority)}
	for _, thread := range threads {
		renice = append(renice, thread.Name())
	}
	return Execute(renice...)
}

// Execute runs a command. Its error has what the command printed.
func Execute(command ...string) error {
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, output)
	}
	return nil
}

// MiB formats a size for the tables.
func MiB(bytes int64) string {
	if bytes == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
}
