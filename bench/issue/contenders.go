package issue

import "context"

// answer is what a contender answers to a press.
type answer uint8

const (
	unasked answer = iota // not sent before the load was given up
	failed                // an error: the user may press again
	accepted
	duplicate
	soldOut
)

// press applies for a coupon. order is the place of an accepted press in the order in which the contender accepted the
// presses of this coupon.
type press func(ctx context.Context, coupon, user int) (a answer, order uint64, err error)

// contender is one way to issue coupons at once.
type contender struct {
	name, title string
	open        func(ctx context.Context, v *stand) (press, error)
	workers     int
	role        string // of a worker; empty: `settle serve`
	// counted: coupon.issued_count rises with each commit, by position.
	counted bool
	// place is the column of user_coupon that numbers the rows in the order in which they were issued.
	place   string
	resumes string // who goes on after a kill of the worker
	// variant: a second form of another contender, which takes part only in the loads on one coupon and the faults.
	variant bool
}

const (
	yardstick    = "jajeong"
	streamWorker = "issue-stream"
	tasksWorker  = "issue-tasks"
)

var contenders = []contender{
	{name: yardstick, title: "Jajeong", open: openJajeong, workers: 2, counted: true, place: "position",
		resumes: "the second `settle serve`"},
	{name: "stream", title: "Redis Stream, one consumer", open: openStream, workers: 1, role: streamWorker, place: "id",
		resumes: "the worker, restarted immediately"},
	{name: "stream-2", variant: true, title: "Redis Stream, two consumers", open: openStream, workers: 2,
		role: streamWorker, place: "id", resumes: "the second consumer; what the first had read, after XAUTOCLAIM"},
	{name: "seats", title: "seat rows, SKIP LOCKED", open: openSeats, place: "position"},
	{name: "asynq", title: "asynq", open: openTasks, workers: 1, role: tasksWorker, place: "id",
		resumes: "the server, restarted immediately; what it had in hand, after its lease"},
}
