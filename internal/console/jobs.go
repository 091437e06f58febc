package console

import (
	"slices"
	"sync"
	"time"

	record "github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
)

// maxKept bounds the jobs of which the console keeps what they have printed.
const maxKept = 500

// job is one run of a verb that changes something, with what it prints.
type job struct {
	ID      string
	Person  signin.Person
	Title   string // in the language of the person
	Back    string // path of what was changed
	Command string
	Began   time.Time

	Out, Notes output.Document
	begun      *record.Handle
	exit       int // read only after the end
}

func (j *job) ended() bool {
	select {
	case <-j.begun.Done():
		return true
	default:
		return false
	}
}

func (j *job) printed() int { return j.Out.Count() + j.Notes.Count() }

// kept are the jobs of which this process keeps what they print. Their rows are for everybody else.
type kept struct {
	mu  sync.Mutex
	all []*job // oldest first
}

func (k *kept) find(id string) *job {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := slices.IndexFunc(k.all, func(j *job) bool { return j.ID == id }); at >= 0 {
		return k.all[at]
	}
	return nil
}

// add keeps a job that has begun, instead of the oldest one that has ended.
func (k *kept) add(j *job) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := slices.IndexFunc(k.all, (*job).ended); len(k.all) >= maxKept && at >= 0 {
		k.all = slices.Delete(k.all, at, at+1)
	}
	k.all = append(k.all, j)
}
