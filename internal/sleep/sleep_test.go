package sleep_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/sleep"
)

func TestFor(t *testing.T) {
	t.Parallel()
	require.NoError(t, sleep.For(t.Context(), time.Nanosecond))
	ctx, stop := context.WithCancelCause(t.Context())
	cause := errors.New("SIGTERM")
	stop(cause)
	require.ErrorIs(t, sleep.For(ctx, time.Hour), cause)
}
