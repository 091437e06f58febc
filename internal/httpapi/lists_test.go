package httpapi_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/httpapi"
)

func TestLists_AdmitsOneListOfACallerAndFourInAll(t *testing.T) {
	t.Parallel()
	var gate httpapi.Lists
	admit := func(caller string) *httpapi.Pass { return gate.Admit(caller, httptest.NewRecorder(), time.Now()) }
	lee := admit("lee")
	require.NotNil(t, lee)
	lee.Share() // with the job that reads it
	lee.Leave()
	require.Nil(t, admit("lee"), "the job has not read it")
	list := lee.Reader([]byte("1"))
	all, err := io.ReadAll(list)
	require.NoError(t, err)
	require.Equal(t, "1", string(all))
	again, err := io.ReadAll(list)
	require.NoError(t, err)
	require.Empty(t, again, "it is not in memory any more")
	next := admit("lee")
	require.NotNil(t, next)
	lee.Leave()
	require.Nil(t, admit("lee"), "the end of a job does not let two in")
	next.Leave()
	require.NotNil(t, admit("lee"))

	var others []*httpapi.Pass
	for n := range 3 {
		others = append(others, admit(fmt.Sprint("key:", n)))
		require.NotNil(t, others[n])
	}
	require.Nil(t, admit("kim"))
	others[0].Leave()
	require.NotNil(t, admit("kim"))

	var none *httpapi.Pass // of a request without a list
	none.Share()
	none.Leave()
}
