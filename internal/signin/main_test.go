package signin_test

import (
	"testing"

	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
