package serve

import (
	"time"

	"github.com/jajeong/jajeong/internal/settle"
)

// Issuance is the result of an immediate run.
type Issuance struct {
	settle.Result
	More   bool            // more applications came meanwhile than one run takes
	Delays []time.Duration // commit minus arrival of each issued application, by the clock of the coupon's shard
}
