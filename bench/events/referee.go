package main

import (
	"encoding/json"
	"fmt"
)

// fault counts what a consumer should not see.
type fault struct{ missing, twice, inversions int }

func (f fault) String() string {
	return fmt.Sprintf("missing %d, twice %d, out of order %d", f.missing, f.twice, f.inversions)
}

// judge compares the events that consumers read, in their order for each partition, with the ids that were to be published.
func judge(want []string, partitions [][][]byte) (f fault, err error) {
	place := make(map[string]int, len(want))
	for i, id := range want {
		place[id] = i
	}
	seen := make([]bool, len(want))
	for _, events := range partitions {
		last := -1
		for _, body := range events {
			var event struct{ ID string }
			if err := json.Unmarshal(body, &event); err != nil {
				return f, err
			}
			at, known := place[event.ID]
			switch {
			case !known:
				return f, fmt.Errorf("no row has the event %s", body)
			case seen[at]:
				f.twice++
				continue
			case at < last:
				f.inversions++
			}
			seen[at], last = true, max(last, at)
		}
	}
	for _, found := range seen {
		if !found {
			f.missing++
		}
	}
	return f, nil
}
