package adminapi

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// state is that of a job.
type state string

const (
	running      state = "RUNNING"
	done         state = "DONE"
	refusedState state = "REFUSED"     // nothing was changed, and the same request will be refused again
	failed       state = "FAILED"      // the same request again goes on
	interrupted  state = "INTERRUPTED" // likewise: the process has died. No row has it, see readJobSQL
)

// Job is a change that the API has made, or makes.
type Job struct {
	ID      string          `json:"id"`
	Caller  string          `json:"caller"`
	Verb    string          `json:"verb"`
	Digest  string          `json:"digest,omitempty"` // of the preview that is carried out
	Done    int64           `json:"done"`             // what the verb has worked on
	Of      int64           `json:"of,omitempty"`     // how many there are; 0: not known
	State   state           `json:"state"`
	BeganAt time.Time       `json:"beganAt"`
	At      time.Time       `json:"at"`               // last sign of life
	Status  int             `json:"status,omitempty"` // HTTP status of the answer
	Answer  json.RawMessage `json:"answer,omitempty"` // the result, or the problem
}

// rows are those of the tables job and idempotency.
type rows struct{ db *mysqltx.DB }

const (
	insertKeySQL = "INSERT INTO idempotency (caller, name, request, job_id, at) VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6))"
	lockKeySQL   = "SELECT request, job_id FROM idempotency WHERE caller = ? AND name = ? FOR UPDATE"
	moveKeySQL   = "UPDATE idempotency SET job_id = ?, at = UTC_TIMESTAMP(6) WHERE caller = ? AND name = ?"
	insertJobSQL = `
INSERT INTO job (id, caller, verb, digest, state, began_at, at)
VALUES (?, ?, ?, ?, 'RUNNING', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))`

	// A job that runs records a sign of life every 5 s. Without one for 30 s, its process has died: it is INTERRUPTED.
	jobColumns = `
SELECT id, caller, verb, digest, done, ` + "`of`" + `,
    IF(state = 'RUNNING' AND at < UTC_TIMESTAMP(6) - INTERVAL 30 SECOND, 'INTERRUPTED', state),
    began_at, at, status, `
	readJobSQL = jobColumns + "COALESCE(answer, '') FROM job WHERE id = ?"
	// A list has no answers: they may be long.
	listJobsSQL = jobColumns + "'' FROM job WHERE ? = '' OR caller = ? ORDER BY began_at DESC, id LIMIT ?"

	aliveSQL = "UPDATE job SET done = ?, at = UTC_TIMESTAMP(6) WHERE id = ?"
	endSQL   = "UPDATE job SET state = ?, done = ?, status = ?, answer = ?, at = UTC_TIMESTAMP(6) WHERE id = ?"

	deleteKeySQL = "DELETE FROM idempotency WHERE job_id = ?"
	deleteJobSQL = "DELETE FROM job WHERE id = ?"

	// Rows are kept for a day.
	deleteOldKeysSQL = "DELETE FROM idempotency WHERE at < UTC_TIMESTAMP(6) - INTERVAL 24 HOUR ORDER BY at LIMIT ?"
	deleteOldJobsSQL = "DELETE FROM job WHERE at < UTC_TIMESTAMP(6) - INTERVAL 24 HOUR ORDER BY at LIMIT ?"
)

// begin records a job with the order's Idempotency-Key. If the caller has used the key before, begin returns the answer
// instead, unless that job failed or was interrupted: then the new job takes its place.
func (s rows) begin(ctx context.Context, id string, o order) (repeated *answer, err error) {
	caller, request := o.call.By.Name, digestOf(o)
	err = s.db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		repeated = nil
		if o.key != "" {
			_, err := tx.ExecContext(ctx, insertKeySQL, caller, o.key, request, id)
			if mysqltx.IsDuplicate(err) {
				recorded, err := s.repeat(ctx, tx, id, o, request, &repeated)
				if err != nil || recorded || repeated != nil {
					return err
				}
			} else if err != nil {
				return err
			}
		}
		return mysqltx.Exec(ctx, tx, 1, insertJobSQL, id, caller, o.call.Verb.Path, o.call.Values["expect-digest"])
	})
	return repeated, mysqltx.Wrap(err, "begin job %s", id)
}

// repeat decides about a key that the caller has used before. recorded: by this job, whose COMMIT had no reply.
func (s rows) repeat(ctx context.Context, tx *sql.Tx, id string, o order, request string,
	repeated **answer) (recorded bool, err error) {
	caller := o.call.By.Name
	var earlierRequest, earlierJob string
	if err := tx.QueryRowContext(ctx, lockKeySQL, caller, o.key).Scan(&earlierRequest, &earlierJob); err != nil {
		return false, err
	}
	switch {
	case earlierJob == id:
		return true, nil
	case earlierRequest != request:
		*repeated = &answer{result: keyOfOther}
		return false, nil
	}
	earlier, err := readJob(ctx, tx, earlierJob)
	switch {
	case err != nil:
		return false, err
	case earlier != nil && earlier.State == running:
		*repeated = &answer{result: inProgress, location: addressOf(earlierJob)}
		return false, nil
	case earlier != nil && (earlier.State == done || earlier.State == refusedState):
		*repeated = &answer{kept: true, status: earlier.Status, body: earlier.Answer}
		return false, nil
	}
	return false, mysqltx.Exec(ctx, tx, 1, moveKeySQL, id, caller, o.key)
}

// digestOf is the same for requests of the same content.
func digestOf(o order) string {
	content, _ := json.Marshal([]any{o.call.Verb.Path, o.call.Values}) // no error: strings alone, in a fixed order
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func (s rows) alive(ctx context.Context, id string, worked int) error {
	_, err := s.db.Pool().ExecContext(ctx, aliveSQL, worked, id)
	return err
}

func (s rows) end(ctx context.Context, id string, worked int, a answer, l text.Language) error {
	status, body := a.status, a.body
	if a.result != "" {
		status, body = problemBody(a, l == text.English)
	}
	return s.once(ctx, func(ctx context.Context, q mysqltx.Querier) error {
		return mysqltx.Exec(ctx, q, 1, endSQL, stateOf(status), worked, status, string(body), id)
	})
}

// forget deletes a job of which nothing ran.
func (s rows) forget(ctx context.Context, id string) error {
	return s.once(ctx, func(ctx context.Context, q mysqltx.Querier) error {
		_, err := q.ExecContext(ctx, deleteKeySQL, id)
		if err == nil {
			_, err = q.ExecContext(ctx, deleteJobSQL, id)
		}
		return err
	})
}

func (s rows) once(ctx context.Context, work func(ctx context.Context, q mysqltx.Querier) error) error {
	return s.db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error { return work(ctx, q) })
}

func (j *Job) fields() []any {
	return []any{&j.ID, &j.Caller, &j.Verb, &j.Digest, &j.Done, &j.Of, &j.State, &j.BeganAt, &j.At, &j.Status,
		&j.Answer}
}

// readJob returns nil for a job that there is not.
func readJob(ctx context.Context, q mysqltx.Querier, id string) (*Job, error) {
	j := new(Job)
	err := q.QueryRowContext(ctx, readJobSQL, id).Scan(j.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return j, mysqltx.Wrap(err, "read job %s", id)
}

func (s rows) read(ctx context.Context, id string) (*Job, error) {
	return readJob(ctx, s.db.Pool(), id)
}

// list returns the last jobs of a caller, or of all.
func (s rows) list(ctx context.Context, caller string) ([]Job, error) {
	all, err := mysqltx.Collect(ctx, s.db.Pool(), (*Job).fields, listJobsSQL, caller, caller, maxListed)
	return all, mysqltx.Wrap(err, "list jobs")
}

// maxDeleted bounds one statement.
const maxDeleted = 1000

// deleteOld deletes the rows of the days before.
func (s rows) deleteOld(ctx context.Context) error {
	for _, statement := range []string{deleteOldKeysSQL, deleteOldJobsSQL} {
		for deleted := maxDeleted; deleted == maxDeleted; {
			var err error
			if deleted, err = mysqltx.Affected(s.db.Pool().ExecContext(ctx, statement, maxDeleted)); err != nil {
				return mysqltx.Wrap(err, "delete old jobs")
			}
		}
	}
	return nil
}
