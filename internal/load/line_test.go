package load

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLine_ReadsReplies(t *testing.T) {
	t.Parallel()
	in := bufio.NewReader(strings.NewReader("HTTP/1.1 503 Service Unavailable\r\n" +
		"content-length: 3\r\nRetry-After: 1\r\n\r\nabc" +
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
	r, err := read(in)
	require.NoError(t, err)
	require.Equal(t, Reply{Status: 503, RetryAfter: true, Body: []byte("abc")}, r)
	r, err = read(in)
	require.NoError(t, err)
	require.Equal(t, Reply{Status: 200, Closes: true, Body: []byte{}}, r)
	_, err = read(in)
	require.ErrorIs(t, err, errReply)
}
