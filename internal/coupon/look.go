package coupon

import "time"

// Line is what the Redis server of a coupon says of its promises.
type Line struct {
	Epoch    string  // "<run_id>:<since>"; empty: the server is new to the coupon
	Since    Arrival // start of the epoch; 0: the server is new to the coupon
	Restored bool    // the server was compared with the journal in this epoch
	Restores int64   // how many restores have ended, in all epochs of this state
	Left     int64   // promises that were missing when the last restore of this epoch ended
	Accepted int64   // applications that this state has accepted; too low if Redis has lost data
	Last     Arrival // highest arrival that the coupon has ever given
	Waiting  int64   // applications in the queue
	DLQ      int64
	Issued   int64 // users marked as issued by a run; not set in a Watch
	Returned int64 // users whom pods have handed over to a restore
}

// Look is what one script says of a coupon, all at the same instant.
type Look struct {
	Line
	Now time.Time // time on the clock of the coupon's Redis shard

	WaitingAfter, DLQAfter int64 // like Waiting and DLQ, but only arrivals above the one that was given

	ByHand     int64 // users marked as issued by hand
	Rejected   int64 // users marked as rejected
	Sold       bool
	Highest    Arrival // highest arrival in the queue and the DLQ; 0: both are empty
	DLQChanges int64   // raised by each script that changes the DLQ; it starts again if the state is lost
	Opens      Arrival // the published window; 0: unknown
	Closes     Arrival
	Paused     bool
	Swept      bool // the keys of the finalised coupon were deleted, and no restore has begun since

	RestoresIn time.Duration // time until a restore may begin: pods first hand over whom they know. 0: it may
}

// MaxAhead is how far arrivals can be ahead of the clock of a Redis server, since that of the server before may have
// been ahead. Beyond that, Redis refuses applications (MAX_AHEAD in candidates/lua/epoch.lua).
const MaxAhead = 5 * time.Second

// Latest returns the highest arrival that an application can have.
func (l Look) Latest() Arrival { return ArrivalAt(l.Now.Add(MaxAhead)) }

// Known is what a caller of Look knows from MySQL.
type Known struct {
	Highest Arrival   // highest arrival that the journal has or that was settled
	Settled int64     // promises that MySQL accounts for; 0: unknown. Left falls if fewer are missing
	Opens   time.Time // start of the window; zero: unknown
	After   Arrival   // entries above it are counted separately
	Cutoff  time.Time // zero: none. Else no application can arrive below it once the shard's clock has passed it
	Observe bool      // change nothing, and ignore the others but for After
}

// Answer is what this process told one applicant: the application stands at this arrival.
type Answer struct {
	User    UserID
	Arrival Arrival
}
