// Package process reads the resources of a process from the kernel.
package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// PeakMemory is the peak resident memory of a process in bytes. known is false after its end. The ru_maxrss of a child would
// include the memory of its parent, which it shares until exec.
func PeakMemory(pid int) (peak int64, known bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, found := strings.Cut(string(status), "VmHWM:")
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

// MiB formats a size for the tables.
func MiB(bytes int64) string {
	if bytes == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
}
