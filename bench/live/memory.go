package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/jajeong/jajeong/bench/process"
)

func (s *stage) redisMemory() int64 {
	size, _ := process.ResidentMemory(s.redis.Pid())
	return size
}

// kernelMemory is the memory of the kernel's own objects and of the buffers of TCP, in bytes; 0 if it is unknown. Other
// programs change it, too.
func kernelMemory() int64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	sockets, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return 0
	}
	var slabKiB, pages int64
	_, slab, _ := strings.Cut(string(info), "Slab:")
	_, tcp, _ := strings.Cut(string(sockets), "TCP:")
	_, tcp, _ = strings.Cut(tcp, " mem ")
	if _, err := fmt.Sscan(slab, &slabKiB); err != nil {
		return 0
	}
	if _, err := fmt.Sscan(tcp, &pages); err != nil {
		return 0
	}
	return slabKiB*1024 + pages*int64(os.Getpagesize())
}
