package adminapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/userlist"
	"github.com/jajeong/jajeong/internal/verb"
)

// uploadTime is how long a list may take to arrive.
const uploadTime = 2 * time.Minute

// receive reads the body of a request, which is the file that a verb takes. It stays in memory, and is not stored. A
// caller may send one at a time.
func (a *API) receive(w http.ResponseWriter, r *http.Request, c *verb.Call) *answer {
	if _, other := a.uploads.LoadOrStore(c.By.Name, true); other {
		a.metrics.refused.WithLabelValues(busy).Inc()
		return &answer{result: unavailable, detail: text.In(c.Language, text.Errorf(text.ConsoleOneUpload))}
	}
	defer a.uploads.Delete(c.By.Name)
	_ = http.NewResponseController(w).SetReadDeadline(a.Now().Add(uploadTime)) // without it, less time is left
	list, err := io.ReadAll(http.MaxBytesReader(w, r.Body, userlist.MaxBytes))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return &answer{result: bodyTooLarge, detail: text.In(c.Language,
			text.Errorf(text.ListTooLong, userlist.MaxUsers, userlist.MaxBytes>>20))}
	case err != nil:
		return &answer{result: invalidBody, detail: text.In(c.Language, text.Errorf(text.ListUnread, err))}
	case len(list) == 0:
		return &answer{result: invalidBody, detail: text.In(c.Language, text.Errorf(text.ListEmpty, "user_id"))}
	}
	sum := sha256.Sum256(list) // another list with the same Idempotency-Key is another request
	c.Values["file"] = hex.EncodeToString(sum[:])
	c.Stdin = bytes.NewReader(list)
	return nil
}
