// Package job keeps a record of the changes that settle console makes, for persons and for keys of the management API.
//
// A job is a row that says who makes which change, and how far it has come. While it runs, its process records a sign
// of life every second. A process that dies leaves a row without signs of life: after 30 s such a job is shown as
// INTERRUPTED. No row has that state, and nobody waits for it: what a job does is safe to kill and to repeat.
package job

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// State is that of a job.
type State string

const (
	Running     State = "RUNNING"
	Done        State = "DONE"
	Refused     State = "REFUSED"     // nothing was changed, and the same request will be refused again
	Failed      State = "FAILED"      // the same request again goes on
	Interrupted State = "INTERRUPTED" // likewise: the process has died
)

// Job is a change.
type Job struct {
	ID      string          `json:"id"`
	Caller  string          `json:"caller"`           // the name of a person, or key:<name>
	Verb    string          `json:"verb"`             // such as coupon close
	Digest  string          `json:"digest,omitempty"` // of the preview that is carried out
	Done    int64           `json:"done"`             // what the verb has worked on
	Of      int64           `json:"of,omitempty"`     // how many there are; 0: not known
	State   State           `json:"state"`
	BeganAt time.Time       `json:"beganAt"`
	At      time.Time       `json:"at"`               // last sign of life
	Status  int             `json:"status,omitempty"` // HTTP status of the answer of the API; 0: there is none
	Answer  json.RawMessage `json:"answer,omitempty"` // the result, or the problem
}

const (
	beginSQL = `
INSERT INTO job (id, caller, verb, digest, state, began_at, at)
VALUES (?, ?, ?, ?, 'RUNNING', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))`

	columns = `
SELECT id, caller, verb, digest, done, ` + "`of`" + `,
    IF(state = 'RUNNING' AND at < UTC_TIMESTAMP(6) - INTERVAL 30 SECOND, 'INTERRUPTED', state),
    began_at, at, status, `
	readSQL = columns + "COALESCE(answer, '') FROM job WHERE id = ?"
	// A list has no answers: they may be long.
	listSQL = columns + "'' FROM job WHERE (? = '' OR caller = ?) AND (NOT ? OR caller LIKE '" +
		audit.KeyActor + "%') ORDER BY began_at DESC, id LIMIT ?"

	aliveSQL = "UPDATE job SET done = ?, `of` = ?, at = UTC_TIMESTAMP(6) WHERE id = ?"
	endSQL   = "UPDATE job SET state = ?, done = ?, `of` = ?, status = ?, answer = ?, at = UTC_TIMESTAMP(6) " +
		"WHERE id = ?"
	deleteKeySQL = "DELETE FROM idempotency WHERE job_id = ?"
	deleteSQL    = "DELETE FROM job WHERE id = ?"
)

// begin records a job that begins.
func begin(ctx context.Context, q mysqltx.Querier, j Job) error {
	return mysqltx.Wrap(mysqltx.Exec(ctx, q, 1, beginSQL, j.ID, j.Caller, j.Verb, j.Digest), "begin job %s", j.ID)
}

// end records how a job has ended.
func end(ctx context.Context, q mysqltx.Querier, j Job) error {
	answer := sql.Null[string]{V: string(j.Answer), Valid: len(j.Answer) > 0}
	err := mysqltx.Exec(ctx, q, 1, endSQL, j.State, j.Done, j.Of, j.Status, answer, j.ID)
	return mysqltx.Wrap(err, "end job %s", j.ID)
}

// forget deletes a job that was refused because of its values, and frees its key: the same request may come again.
func forget(ctx context.Context, q mysqltx.Querier, j Job) error {
	for _, statement := range []string{deleteKeySQL, deleteSQL} {
		if _, err := q.ExecContext(ctx, statement, j.ID); err != nil {
			return mysqltx.Wrap(err, "forget job %s", j.ID)
		}
	}
	return nil
}

func (j *Job) fields() []any {
	return []any{&j.ID, &j.Caller, &j.Verb, &j.Digest, &j.Done, &j.Of, &j.State, &j.BeganAt, &j.At, &j.Status,
		&j.Answer}
}

// Read returns nil for a job that there is not.
func Read(ctx context.Context, q mysqltx.Querier, id string) (*Job, error) {
	j := new(Job)
	err := q.QueryRowContext(ctx, readSQL, id).Scan(j.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return j, mysqltx.Wrap(err, "read job %s", id)
}

// Filter chooses jobs. Zero fields choose all.
type Filter struct {
	Caller string
	Keys   bool // those of keys of the management API
	Limit  int
}

// List returns jobs without their answers, the last ones first.
func List(ctx context.Context, q mysqltx.Querier, f Filter) ([]Job, error) {
	all, err := mysqltx.Collect(ctx, q, (*Job).fields, listSQL, f.Caller, f.Caller, f.Keys, f.Limit)
	return all, mysqltx.Wrap(err, "list jobs")
}

// betweenSigns is the time between two signs of life.
const betweenSigns = time.Second

// Progress is how far a job is. Tell is the Progress of a verb's call.
type Progress struct{ done, of atomic.Int64 }

func (p *Progress) Tell(done, of int) {
	p.of.Store(int64(of))
	p.done.Store(int64(done))
}

// Of returns how many there are, and how many of them are done. Of a job that tells nothing, done is what it says.
func (p *Progress) Of(printed int) (done, of int64) {
	if of = p.of.Load(); of > 0 {
		return p.done.Load(), of
	}
	return int64(printed), 0
}

// beat records signs of life of a job until ctx ends. progress says how far it is.
func beat(ctx context.Context, q mysqltx.Querier, id string, progress func() (done, of int64), logger *zap.Logger) {
	tick := time.NewTicker(betweenSigns)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			done, of := progress()
			if _, err := q.ExecContext(ctx, aliveSQL, done, of, id); err != nil && ctx.Err() == nil {
				logger.Warn("sign of life of a job not recorded", zap.String("job", id), zap.Error(err))
			}
		case <-ctx.Done():
			return
		}
	}
}
