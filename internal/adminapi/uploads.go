package adminapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/userlist"
	"github.com/jajeong/jajeong/internal/verb"
)

// receive reads the body of a request, which is the file that a verb takes. It stays in memory, and is not stored.
func receive(w http.ResponseWriter, r *http.Request, c *verb.Call, pass *httpapi.Pass) *answer {
	list, err := io.ReadAll(http.MaxBytesReader(w, r.Body, userlist.MaxBytes))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return &answer{result: bodyTooLarge, detail: text.In(c.Language,
			text.Errorf(text.ListTooLong, userlist.MaxUsers, userlist.MaxBytes>>20))}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &answer{result: unavailable, detail: text.In(c.Language,
			text.Errorf(text.ListTooSlow, int(httpapi.ListArrives.Minutes())))}
	case err != nil:
		return &answer{result: invalidBody, detail: text.In(c.Language, text.Errorf(text.ListUnread, err))}
	case len(list) == 0:
		return &answer{result: invalidBody, detail: text.In(c.Language, text.Errorf(text.ListEmpty, "user_id"))}
	}
	sum := sha256.Sum256(list) // another list with the same Idempotency-Key is another request
	c.Values["file"] = hex.EncodeToString(sum[:])
	c.Stdin = pass.Reader(list)
	return nil
}
