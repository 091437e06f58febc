package testenv

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(childRole) != "" {
		runChild()
	}
	Main(m)
}
