package stage

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// PeakMemory is the peak resident memory of a process in bytes. known is false after its end. The ru_maxrss of a child
// would include the memory of its parent, which it shares until exec.
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

// CPU is the CPU time of a process so far, or 0 if it is unknown.
func CPU(pid int) time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ") // the name may contain any character
	const user, system = 11, 12
	return ticks(after, user, system)
}

// busy is the CPU time of all cores since the start of the machine, or 0 if it is unknown.
func busy() time.Duration {
	stat, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(stat), "\n")
	const user, nice, system, irq, softirq, steal = 1, 2, 3, 6, 7, 8 // the fields after steal are included in others
	return ticks(first, user, nice, system, irq, softirq, steal)
}

func ticks(line string, places ...int) (sum time.Duration) {
	fields := strings.Fields(line)
	for _, place := range places {
		if place < len(fields) {
			n, _ := strconv.ParseInt(fields[place], 10, 64)
			sum += time.Duration(n) * tick
		}
	}
	return sum
}

// ofEnded is the CPU time of all child processes that have ended.
func ofEnded() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used) // otherwise 0
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// watchPeak returns the peak resident memory of a process in bytes, at its end.
func watchPeak(pid int) <-chan int64 {
	peak := make(chan int64, 1)
	go func() {
		var last int64
		for {
			bytes, known := PeakMemory(pid)
			if !known {
				peak <- last
				return
			}
			last = bytes
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return peak
}

// bind binds all threads of a process to these cores, such as 1-3. Its children inherit them. It needs Linux.
func bind(pid int, cores string) error {
	taskset := exec.Command("taskset", "--all-tasks", "--cpu-list", "--pid", cores, strconv.Itoa(pid))
	if output, err := taskset.CombinedOutput(); err != nil {
		return fmt.Errorf("bind process %d to cores %s: %w: %s", pid, cores, err, output)
	}
	return nil
}
