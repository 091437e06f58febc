// Package process tells what a process uses, by the kernel's account of it.
package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// PeakMemory is the most resident memory that a process has had so far, in bytes; known is false when it has ended. The
// kernel keeps it; the ru_maxrss of a child would count the memory of its parent, which it shares until it becomes
// another program.
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

// tick is the unit in which Linux tells what a process has used.
const tick = 10 * time.Millisecond

// CPUTime is what a process has used of the cores so far; 0 where that cannot be told.
func CPUTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name before may hold anything
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

// Busy is how long the cores have worked since the machine was started, all of them together; 0 where that cannot be
// told.
func Busy() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(first)
	const idle, iowait, steal = 4, 5, 8 // what follows is counted in others already
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

// MiB writes a size as the tables have it.
func MiB(bytes int64) string {
	if bytes == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
}
