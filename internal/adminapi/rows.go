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
	"github.com/jajeong/jajeong/internal/text"
)

// rows are those of the tables job and idempotency.
type rows struct{ db *mysqltx.DB }

const (
	insertKeySQL = "INSERT INTO idempotency (caller, name, request, job_id, at) VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6))"
	lockKeySQL   = "SELECT request, job_id FROM idempotency WHERE caller = ? AND name = ? FOR UPDATE"
	moveKeySQL   = "UPDATE idempotency SET job_id = ?, at = UTC_TIMESTAMP(6) WHERE caller = ? AND name = ?"
	deleteKeySQL = "DELETE FROM idempotency WHERE job_id = ?"
)

// begin records a job with the order's Idempotency-Key. If the caller has used the key before, begin returns the answer
// instead, unless that job failed or was interrupted: then the new job takes its place.
func (s rows) begin(ctx context.Context, id string, o *order) (repeated *answer, err error) {
	caller, request := o.call.By.Name, digestOf(*o)
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
		return job.Begin(ctx, tx, job.Job{ID: id, Caller: caller, Verb: o.call.Verb.Path,
			Digest: o.call.Values["expect-digest"]})
	})
	return repeated, mysqltx.Wrap(err, "begin job %s", id)
}

// repeat decides about a key that the caller has used before. recorded: by this job, whose COMMIT had no reply.
func (s rows) repeat(ctx context.Context, tx *sql.Tx, id string, o *order, request string,
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
	earlier, err := job.Read(ctx, tx, earlierJob)
	switch {
	case err != nil:
		return false, err
	case earlier != nil && earlier.State == job.Running:
		*repeated = &answer{result: inProgress, location: addressOf(earlierJob)}
		return false, nil
	case earlier != nil && (earlier.State == job.Done || earlier.State == job.Refused):
		*repeated = &answer{kept: true, status: earlier.Status, body: earlier.Answer}
		return false, nil
	}
	o.again = true
	return false, mysqltx.Exec(ctx, tx, 1, moveKeySQL, id, caller, o.key)
}

// digestOf is the same for requests of the same content.
func digestOf(o order) string {
	content, _ := json.Marshal([]any{o.call.Verb.Path, o.call.Values}) // no error: strings alone, in a fixed order
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// end records the answer of a job.
func (s rows) end(ctx context.Context, ended job.Job, a answer, l text.Language) error {
	ended.Status, ended.Answer = a.status, a.body
	if a.result != "" {
		ended.Status, ended.Answer = a.problem(l)
	}
	switch {
	case ended.Status < http.StatusBadRequest:
		ended.State = job.Done
	case ended.Status < http.StatusInternalServerError:
		ended.State = job.Refused
	default:
		ended.State = job.Failed
	}
	return s.db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error { return job.End(ctx, q, ended) })
}

// forget deletes a job that was refused because of its values, and frees its key.
func (s rows) forget(ctx context.Context, id string) error {
	return s.db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		if _, err := q.ExecContext(ctx, deleteKeySQL, id); err != nil {
			return err
		}
		return job.Forget(ctx, q, id)
	})
}
