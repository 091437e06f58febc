package console

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/userlist"
	"github.com/jajeong/jajeong/internal/verb"
)

// upload is what a form sends: its values, and the file of one that has a file.
type upload struct {
	values url.Values // of the file, its name
	file   []byte     // nil: none
	pass   *httpapi.Pass
}

func isUpload(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "multipart/form-data" && r.Method == http.MethodPost
}

// received reads a form. A file stays in memory, and is not stored: whoever carries a list out sends it again.
func (c *Console) received(w http.ResponseWriter, r *http.Request) (u upload, err error) {
	if !isUpload(r) {
		err := r.ParseForm()
		return upload{values: r.PostForm}, err
	}
	if u.pass = c.Lists.Admit(signin.From(r.Context()).SignIn, w, c.Now()); u.pass == nil {
		return u, text.UsageErrorf(text.ConsoleOneUpload)
	}
	parts, err := r.MultipartReader()
	u.values = url.Values{}
	for err == nil {
		part, failed := parts.NextPart()
		if errors.Is(failed, io.EOF) {
			return u, nil
		}
		if err = failed; err != nil {
			break
		}
		var content bytes.Buffer
		_, err = content.ReadFrom(part)
		switch {
		case part.FileName() != "":
			u.file = content.Bytes()
			u.values.Set(part.FormName(), part.FileName())
		case part.FormName() != "" && len(u.values) < maxFields && content.Len() <= maxBody:
			u.values.Add(part.FormName(), content.String())
		}
	}
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		err = text.UsageErrorf(text.ListTooLong, userlist.MaxUsers, userlist.MaxBytes>>20)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = text.UsageErrorf(text.ListTooSlow, int(httpapi.ListArrives.Minutes()))
	}
	return u, err
}

// maxFields is more than any form has.
const maxFields = 50

// bodyLimit bounds the body of a request.
func bodyLimit(r *http.Request) int64 {
	if isUpload(r) && (strings.HasPrefix(r.URL.Path, "/do/") || strings.HasPrefix(r.URL.Path, "/approvals/")) {
		return userlist.MaxBytes + maxBody
	}
	return maxBody
}

// stdin is the file as the verb reads it; nil: there is none.
func (u upload) stdin() io.Reader {
	if u.file == nil {
		return nil
	}
	return u.pass.Reader(u.file)
}

// fileField returns the field of a verb that takes a file; nil if it has none.
func fileField(fields []field) *field {
	for i := range fields {
		if fields[i].Kind == string(verb.File) {
			return &fields[i]
		}
	}
	return nil
}
