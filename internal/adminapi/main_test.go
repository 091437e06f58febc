package adminapi_test

import (
	"testing"

	"github.com/jajeong/jajeong/internal/jajeongtest"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }
