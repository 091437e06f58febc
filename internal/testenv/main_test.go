package testenv

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		runChild(role)
	}
	Main(m)
}
