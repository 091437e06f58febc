// Command mysqlfound says which database servers the tests will use, for `make test-mysql`. If the environment names
// none, or one does not answer, it says what to do and exits with 1.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/jajeong/jajeong/internal/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	found, err := testenv.FindMySQL(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "make test-mysql:", err)
		os.Exit(1)
	}
	fmt.Print(found)
}
