package adminapi

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	insertKeySQL = "INSERT INTO idempotency (caller, `key`, request, job_id, at) VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6))"
	lockKeySQL   = "SELECT request, job_id FROM idempotency WHERE caller = ? AND `key` = ? FOR UPDATE"
	moveKeySQL   = "UPDATE idempotency SET job_id = ?, at = UTC_TIMESTAMP(6) WHERE caller = ? AND `key` = ?"
)

// takeKey gives the order's Idempotency-Key to the job that begins. If the caller has used the key before, it returns
// the answer and job.ErrKnown instead, unless that job failed or was interrupted: then this one takes its place, again.
func takeKey(ctx context.Context, tx *sql.Tx, id string, o order) (repeated *answer, again bool, err error) {
	caller, request := o.call.By.Name, digestOf(o)
	_, err = tx.ExecContext(ctx, insertKeySQL, caller, o.key, request, id)
	if !mysqltx.IsDuplicate(err) {
		return nil, false, err
	}
	var earlierRequest, earlierJob string
	if err := tx.QueryRowContext(ctx, lockKeySQL, caller, o.key).Scan(&earlierRequest, &earlierJob); err != nil {
		return nil, false, err
	}
	switch {
	case earlierJob == id: // the COMMIT of an earlier attempt had no reply
		return nil, o.again, nil
	case earlierRequest != request:
		return &answer{result: keyOfOther}, false, job.ErrKnown
	}
	earlier, err := job.Read(ctx, tx, earlierJob)
	switch {
	case err != nil:
		return nil, false, err
	case earlier != nil && earlier.State == job.Running:
		return &answer{result: inProgress, location: addressOf(earlierJob)}, false, job.ErrKnown
	case earlier != nil && (earlier.State == job.Done || earlier.State == job.Refused):
		return &answer{kept: true, status: earlier.Status, body: earlier.Answer}, false, job.ErrKnown
	}
	return nil, true, mysqltx.Exec(ctx, tx, 1, moveKeySQL, id, caller, o.key)
}

// digestOf is the same for requests of the same content.
func digestOf(o order) string {
	content, _ := json.Marshal([]any{o.call.Verb.Path, o.call.Values}) // no error: strings alone, in a fixed order
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// ofJob is the answer as a job keeps it. What was refused because of its values is not kept: the same key may come with
// other values. A refusal is not the last word about an order of which an earlier attempt may have done a part.
func (a answer) ofJob(o order) (ended job.Job) {
	if a.result == invalidValues {
		return job.Job{}
	}
	ended.Status, ended.Answer = a.status, a.body
	if a.result != "" {
		ended.Status, ended.Answer = a.problem(o.call.Language)
	}
	switch {
	case ended.Status < http.StatusBadRequest:
		ended.State = job.Done
	case ended.Status < http.StatusInternalServerError && !o.again:
		ended.State = job.Refused
	default:
		ended.State = job.Failed
	}
	return ended
}
