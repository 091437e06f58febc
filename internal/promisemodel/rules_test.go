package promisemodel

// rule is a sentence of the contract that a world may be without. Each comment has the sentence, and the shortest
// sequence that is found without it. TestWithoutARuleAPromiseIsBroken finds it again.
type rule int

const (
	all rule = iota // every rule is kept

	// Epochs and counts.

	// An epoch ends when run_id or replid of the server changes.
	// Without it: the replica stops to follow; user 2 applies by pod 1; the journal reads its first page; the server
	// is demoted and promoted again. Lost, and nobody notices, though the journal has the row.
	epochByReplid
	// A replid that changed beside the same run_id and no second replid is no epoch.
	// Without it: a first replica comes. A restore is due, and the server is the same.
	replicaIsNoEpoch
	// since is above the old since, also if the clock is not.
	// Without it: the replica stops to follow; an immediate run begins; user 2 applies by pod 1; the settlement
	// reads the line; the replica is promoted, and its clock is late; user 1 applies by pod 1; the settlement checks
	// again; an immediate run begins. Somebody is passed over.
	sinceGrows
	// An outcome accounts for arrivals below the cutoff of its run, not for arrivals below its own.
	// Without it: user 1 applies by pod 1; user 2 applies by pod 2; Redis is flushed; pod 1 looks; pod 2 looks; user
	// 2 applies by pod 2; ten seconds pass; the journal reads its first page; a restore begins; the restore goes on;
	// an immediate run begins. Somebody is settled and stands again.
	cutoffAccounts
	// Entering again adds nothing to accepted.
	// Without it: user 1 applies by pod 2; the queue key is deleted. A gap, and nobody is lost.
	enteringAddsNothing
	// A restore and a settlement add to accepted what is accounted for beyond it.
	// Without it: user 1 applies by pod 1; Redis is flushed; pod 1 looks; pod 2 looks; ten seconds pass; a restore
	// begins; the restore goes on; pod 1 looks; the queue key is deleted. Lost, and nobody notices, though the
	// journal has the row.
	excessIsAdded
	// Who is settled and stands at that arrival, or at an earlier one, counts once.
	// Without it: the replica stops to follow; user 2 applies by pod 2; the replica is promoted; pod 2 is cut off;
	// pod 1 looks; ten seconds pass; a restore begins; the restore goes on; the restore goes on; the restore goes
	// on; user 1 applies by pod 1; user 2 applies by pod 1; an immediate run begins; the settlement reads the line;
	// the settlement checks again; the settlement commits; the close-out goes on; pod 2 reaches Redis again; pod 2
	// looks; a restore begins; the restore goes on; the restore goes on; the restore goes on; the close-out goes on;
	// an immediate run begins; the settlement reads the line; the settlement checks again; the settlement commits;
	// user 2 is cleaned up. A gap, and nobody is lost.
	earlierPlaceCountsOnce
	// A coupon given by hand never replaces a score.
	// Without it: MySQL's replica stops to follow; user 1 applies by pod 1; an immediate run begins; the settlement
	// checks again; user 1 is cleaned up; pod 1 dies; MySQL falls back to its replica; user 1 gets a coupon by hand.
	// A gap, and nobody is lost.
	handReplacesNothing

	// What pods do.

	// A pod remembers DUPLICATE as well.
	// Without it: MySQL's replica stops to follow; user 1 applies by pod 1; the journal reads its first page; user 1
	// applies by pod 2; pod 1 dies; MySQL falls back to its replica; Redis is flushed. Lost, and nobody notices.
	duplicatesRemembered
	// A pod forgets what the journal has, ten seconds after it read so.
	// Without it: MySQL's replica stops to follow; the replica stops to follow; user 1 applies by pod 1; the journal
	// reads its first page; pod 1 looks; the replica is promoted; MySQL falls back to its replica. Lost, and nobody
	// notices.
	forgetsAfterTenSeconds
	// A pod that Redis does not answer forgets nothing.
	// Without it: user 1 applies by pod 1; pod 1 is cut off; the queue key is deleted; a restore begins; the restore
	// goes on; the journal reads its first page; user 1 applies by pod 2; ten seconds pass. Somebody stands behind
	// the arrival that was told.
	silenceForgetsNothing
	// A pod keeps what it handed over until returned has been empty for ten seconds.
	// Without it: the replica stops to follow; user 2 applies by pod 1; the replica is promoted; the replica stops
	// to follow; pod 1 looks; user 2 applies by pod 2; the replica is promoted. Somebody stands behind the arrival
	// that was told.
	keepsUntilTaken
	// A pod that sees another epoch compares its memory.
	// Without it: the replica stops to follow; user 1 applies by pod 1; the replica is promoted; user 2 applies by
	// pod 1; user 1 applies by pod 2; ten seconds pass; a restore begins; the restore goes on; an immediate run
	// begins. Somebody is passed over.
	newEpochCompares
	// A pod that sees that a restore has ended compares its memory.
	// Without it: user 2 applies by pod 2; the queue key is deleted. Lost, and seen as a gap.
	restoreCompares
	// A restore that only took what was handed over is none that pods compare after.
	// Without it: user 2 applies by pod 1; user 1 applies by pod 1; an immediate run begins; the settlement checks
	// again; a restore begins. Restores follow each other.
	takingComparesNothing
	// Whoever stands is remembered by the new epoch.
	// Without it nothing is found: an answer of an old epoch is kept for ever, which costs memory alone.
	whoStandsGetsEpoch
	// At another epoch a mark is no answer.
	// Without it nothing is found: a restore enters marks that MySQL does not know.
	markIsNoAnswer
	// A pod that writes its memory into the journal raises asked.
	// Without it: the replica stops to follow; user 1 applies by pod 1; the replica is promoted; pod 1 is cut off;
	// pod 2 looks; ten seconds pass; a restore begins; the restore goes on; pod 1 is told to end, and writes its
	// memory into the journal. Lost, and nobody notices, though the journal has the row.
	terminatingAsks
	// A pod that ends on a server that the journal does not copy writes its memory into the journal, and asks.
	// Without it: the replica is promoted, and the former server still serves; a restore begins; ten seconds pass, and
	// the former server still serves; a restore begins; the restore goes on; user 1 applies by pod 1; pod 1 is told to
	// end. Lost, and nobody notices.
	terminatingTellsElsewhere
	// A pod that promises in the journal asks for a restore, unless the journal is a copy of its server.
	// Without it: the replica is promoted, and the former server still serves; pod 2 dies; user 1 applies by pod 2; the
	// row of user 1 is committed, and the user told; the former server serves again; pod 2 dies. Lost, and nobody
	// notices, though the journal has the row.
	commitAsks
	// A pod passes the highest arrival that it has seen.
	// Without it: the replica stops to follow; user 1 applies by pod 1; the replica is promoted, and its clock is
	// late; user 1 applies by pod 1. An arrival lies below one that was told.
	podsPassSeen
	// The catalog lifts last to what MySQL knows.
	// Without it nothing is found.
	catalogLiftsLast

	// The journal.

	// A page of another epoch discards the copy.
	// Without it nothing is found: pods compare at a new epoch before they forget. It keeps the meaning of up_to.
	pagesCarryEpoch
	// A copy of a server that was not compared yet asks for a restore.
	// Without it: the replica is promoted, and the former server still serves; the former server ends; user 1
	// applies by pod 2; the journal reads its first page; pod 2 dies; the former server serves again. Lost, and
	// nobody notices, though the journal has the row.
	copyAsks
	// up_to becomes the last of the first reply.
	// Without it: the journal reads its first page; user 2 applies by pod 1; user 1 applies by pod 2; the journal
	// reads its second page; the journal commits; ten seconds pass; the queue key is deleted. Lost, and seen as a
	// gap.
	upToOfFirstReply
	// A new epoch is read from the lower of up_to and since.
	// Without it nothing is found within four faults.
	lowerOfUpToAndSince
	// A new epoch is read from ten seconds before that.
	// Without it nothing is found within four faults.
	tenSecondsBefore
	// epoch and up_to stay while a restore is due.
	// Without it: the replica is promoted; user 2 applies by pod 2; the queue key is deleted; the journal reads its
	// first page. Lost, and seen as a gap.
	upToStaysWhileDue
	// epoch and up_to stay while a clean-up is pending.
	// Without it: user 1 applies by pod 1; an immediate run begins; the settlement reads the line; the settlement
	// checks again; the settlement commits, but the first row; the close-out goes on; user 2 applies by pod 2; an
	// operator retries the DLQ; the settlement checks again; the settlement commits; a restore begins; the restore
	// goes on; the restore goes on; the queue key is deleted; the journal reads its first page; the journal reads
	// its second page; the journal commits; ten seconds pass. Lost, and seen as a gap.
	upToStaysWhileUnclean
	// Whoever is entered at an arrival of the past is in the journal first.
	// Without it: MySQL's replica stops to follow; user 1 applies by pod 1; an immediate run begins; the settlement
	// checks again; user 1 is cleaned up; MySQL falls back to its replica; pod 1 dies; a restore begins; the restore
	// goes on; Redis is flushed. Lost, and nobody notices.
	journalFirst
	// An up_to lower than this process has left it, in the same epoch, is 0 once.
	// Without it nothing is found: a snapshot of MySQL has the rows that its up_to promises, but for those of a
	// restore.
	fallbackReadsAll
	// MySQL has fallen back, too, if it lacks rows that a restore of this process wrote.
	// Without it: the replica stops to follow; user 1 applies by pod 1; the replica is promoted; pod 1 is cut off;
	// pod 2 looks; ten seconds pass; a restore begins; the restore goes on; pod 2 looks; user 2 applies by pod 2;
	// the journal reads its first page; MySQL's replica stops to follow; pod 1 reaches Redis again; pod 1 looks; a
	// restore begins; the restore goes on; MySQL falls back to its replica; the journal reads its first page; ten
	// seconds pass; Redis is flushed. Lost, and nobody notices.
	fallbackByWritten
	// up_to is 0 after a restore has entered marks.
	// Without it nothing is found: the marks are in the journal first.
	marksReadAll

	// The restore.

	// A restore writes returned into the journal first.
	// Without it: the replica stops to follow; user 1 applies by pod 1; the replica is promoted; pod 1 is cut off;
	// pod 2 looks; ten seconds pass; a restore begins; the restore goes on; pod 1 reaches Redis again; pod 1 looks;
	// a restore begins; the restore goes on; pod 2 looks; ten seconds pass; Redis is flushed. Lost, and nobody
	// notices.
	returnedIntoJournal
	// A restore waits until a copy under way has committed.
	// Without it: user 1 applies by pod 1; the journal reads its first page; pod 1 dies; the queue key is deleted; a
	// restore begins; the restore goes on. Lost, and seen as a gap, though the journal has the row.
	restoreLocksJournal
	// A later place in the queue moves forward.
	// Without it: the replica stops to follow; user 1 applies by pod 2; the replica is promoted; user 1 applies by
	// pod 1. Somebody stands behind the arrival that was told.
	placesMoveForward
	// A mark that MySQL does not know goes when its user is entered.
	// Without it nothing is found: verify names the mark.
	unknownMarkGoes
	// Marks that MySQL has and Redis lacks are written again.
	// Without it: an immediate run begins; the settlement checks again; user 1 applies by pod 1; the close-out goes
	// on; an immediate run begins; the settlement checks again; user 1 is cleaned up; Redis is flushed. A restore is
	// due for ever, by rule 3.
	marksAreWrittenAgain
	// Marks of whom MySQL has no coupon are entered at their arrival.
	// Without it: MySQL's replica stops to follow; user 1 applies by pod 1; an immediate run begins; the settlement
	// checks again; user 1 is cleaned up; MySQL falls back to its replica. Lost, and seen as a gap.
	marksAreEntered
	// Marks are entered also if nobody is missing.
	// Without it: user 1 applies by pod 1; MySQL's replica stops to follow; an immediate run begins; the replica
	// stops to follow; user 2 applies by pod 2; the settlement checks again; the replica is promoted; pod 1 looks;
	// user 1 is cleaned up; MySQL falls back to its replica. Lost, and nobody notices.
	marksNeedNoGap
	// A mark given by hand has no arrival to be entered at.
	// Without it: MySQL's replica stops to follow; user 2 gets a coupon by hand; user 1 applies by pod 2; MySQL
	// falls back to its replica; an immediate run begins; the settlement checks again; a restore begins; the restore
	// goes on; user 2 applies by pod 1. Somebody is passed over.
	handIsNoArrival
	// A restore removes exactly the members of returned that it handled.
	// Without it: user 1 applies by pod 1; the queue key is deleted; user 1 applies by pod 2; the queue key is
	// deleted; a restore begins; the restore goes on; the restore goes on; the restore goes on; pod 2 looks; a
	// restore begins; pod 1 looks. Somebody stands behind the arrival that was told.
	removesExactly
	// A restore ends only if the epoch is the same.
	// Without it: user 1 applies by pod 2; Redis is flushed; pod 2 looks; pod 1 looks; ten seconds pass; a restore
	// begins; the restore goes on; the restore goes on; Redis is flushed; pod 2 looks. Lost, and nobody notices,
	// though the journal has the row.
	endSeesEpoch
	// Places that moved forward lower accepted, if people are missing.
	// Without it: user 1 applies by pod 1; the queue key is deleted; user 1 applies by pod 2. A gap, and nobody is
	// lost.
	movedLowersAccepted
	// Places that move in the first restore of an epoch lower nothing.
	// Without it nothing is found.
	notInFirstRestore
	// left is at most what was missing when the restore began.
	// Without it: user 2 applies by pod 1; the queue key is deleted; user 1 applies by pod 1; a restore begins; the
	// restore goes on; the restore goes on; the restore goes on; the journal reads its first page; pod 1 looks; the
	// journal reads its second page; the journal commits; a restore begins; the restore goes on; the queue key is
	// deleted. Lost, and seen as a gap, though the journal has the row.
	leftAtMostBefore
	// Whom the restore has entered or moved forward does not count among these.
	// Without it: user 2 applies by pod 1; the queue key is deleted; a restore begins; the restore goes on; the
	// restore goes on; the restore goes on; pod 1 looks; a restore begins; user 1 applies by pod 1; the queue key is
	// deleted. Lost, and seen as a gap.
	leftWithoutEntered
	// left is lowered when fewer are missing.
	// Without it: user 1 applies by pod 1; pod 1 dies; the queue key is deleted; a restore begins; the restore goes
	// on; the gap is written off; user 2 applies by pod 2; the journal reads its first page; the queue key is
	// deleted. Lost, and seen as a gap, though the journal has the row.
	leftIsLowered
	// A restore begins ten seconds after since.
	// Without it: the replica stops to follow; user 2 applies by pod 2; the replica is promoted; a restore begins;
	// user 1 applies by pod 1; the restore goes on; an immediate run begins. Somebody is passed over.
	restoreWaits
	// An epoch is born restored before the opening only.
	// Without it: user 1 applies by pod 1; Redis is flushed; pod 2 looks; user 2 applies by pod 1; an immediate run
	// begins. Somebody is passed over.
	bornBeforeOpening
	// On a server that was promoted, an epoch is not born restored: the former one may accept somebody.
	// Without it: the replica is promoted, and the former server still serves; an immediate run begins; the settlement
	// checks again; the window opens; user 1 applies by pod 2; the former server ends; user 2 applies by pod 1; the
	// close-out goes on; an immediate run begins. Somebody is passed over.
	promotedIsCompared
	// Whoever was told after an operator had closed the coupon is entered, too.
	// Without it: the replica is promoted, and the former server still serves; an operator closes the coupon; user 1
	// applies by pod 2. Lost, and nobody notices, though the journal has the row.
	lateAreEntered

	// When a restore is due.

	// A restore is due if the journal was last copied from another epoch.
	// Without it: the replica is promoted, and the former server still serves; the former server ends; pod 2 looks;
	// user 1 applies by pod 1; ten seconds pass; a restore begins; the restore goes on; the journal reads its first
	// page; pod 1 looks; pod 2 looks; ten seconds pass; the former server serves again. Lost, and nobody notices,
	// though the journal has the row.
	dueOtherEpoch
	// A restore is due if more are missing than left.
	// Without it: user 1 applies by pod 1; the queue key is deleted. Lost, and seen as a gap.
	dueMissing
	// A restore is due if there are fewer marks than coupons.
	// Without it: user 1 applies by pod 2; an immediate run begins; the settlement checks again; user 1 is cleaned
	// up; the key of marks is deleted. Somebody has a coupon and no mark.
	dueMarks
	// Marks of coupons given by hand do not count.
	// Without it: user 1 applies by pod 1; user 2 applies by pod 2; a nightly settlement begins; the settlement
	// checks again; user 1 is cleaned up; the close-out goes on; the close-out goes on; user 2 is cleaned up; the
	// coupon is finalised, user 2 forgotten, and the window extended; user 2 gets a coupon by hand. Somebody has a
	// coupon and no mark.
	handMarksNotCounted
	// A restore is due if somebody was handed over.
	// Without it: the replica stops to follow; user 1 applies by pod 1; the replica is promoted; pod 1 is cut off;
	// pod 2 looks; ten seconds pass; a restore begins. Lost, and nobody notices, though a pod knows.
	dueReturned
	// A restore is due if MySQL asks for it.
	// Without it: the replica stops to follow; user 1 applies by pod 1; the replica is promoted; pod 1 is cut off;
	// pod 2 looks; ten seconds pass; a restore begins; the restore goes on; pod 1 is told to end, and writes its
	// memory into the journal. Lost, and nobody notices, though the journal has the row.
	dueAsked

	// The settlement.

	// A settlement begins only if no restore is due.
	// Without it: the replica stops to follow; user 2 applies by pod 2; the replica is promoted; user 1 applies by
	// pod 2; an immediate run begins. Somebody is passed over.
	settlesNothingWhileDue
	// A settlement checks again before its commit.
	// Without it: the replica stops to follow; user 1 applies by pod 1; the replica is promoted; user 2 applies by
	// pod 2; pod 1 looks; ten seconds pass; the replica stops to follow; a restore begins; the restore goes on; the
	// restore goes on; the restore goes on; an immediate run begins; the replica is promoted. Somebody is passed
	// over.
	checksBeforeCommit
	// A gap holds the coupon.
	// Without it: user 1 applies by pod 2; the queue key is deleted; user 1 applies by pod 1; a restore begins; the
	// restore goes on; an immediate run begins. A gap, and nobody is lost.
	gapHolds
	// A nightly settlement that finds a gap restores once more before it holds.
	// Without it: user 1 applies by pod 1; the queue key is deleted; a restore begins; the restore goes on; the row
	// of user 1 is committed, and the user told; pod 1 dies. Lost, and seen as a gap, though the journal has the
	// row.
	gapRestoresOnce
	// A coupon is finalised only if no restore is due.
	// Without it: an immediate run begins; user 1 applies by pod 2; the settlement checks again; the journal reads its
	// first page; the close-out goes on; an immediate run begins; Redis is flushed; the settlement checks again; the
	// coupon is finalised. Nothing accounts for a row of the journal.
	finalisesNothingWhileDue
	// The end of a coupon is taken back if another server does not have it.
	// Without it: the replica stops to follow; an operator closes the coupon; the coupon is finalised; the replica is
	// promoted; user 1 applies by pod 1. Somebody stands, and the coupon is finalised.
	endIsTakenBack
	// Clean-up removes a member at the settled arrival or at an earlier one.
	// Without it: the replica stops to follow; user 2 applies by pod 2; the replica is promoted; pod 2 is cut off;
	// pod 1 looks; ten seconds pass; a restore begins; the restore goes on; the restore goes on; the restore goes
	// on; user 1 applies by pod 1; user 2 applies by pod 1; an immediate run begins; the settlement reads the line;
	// the settlement checks again; the settlement commits; the close-out goes on; pod 2 reaches Redis again; pod 2
	// looks; a restore begins. Somebody is settled and stands again.
	earlierPlacesAreCleaned
	// A clean-up asks for a restore if the journal has a user of its run at an arrival that the run does not answer.
	// Without it: the replica stops to follow; user 1 applies by pod 1; an immediate run begins; user 2 applies by
	// pod 2; the settlement checks again; user 1 is cleaned up; the close-out goes on; the close-out goes on; an
	// immediate run begins; the settlement checks again; the replica is promoted; pod 2 looks; user 2 applies by pod
	// 2; pod 1 looks; ten seconds pass; the journal reads its first page; a restore begins; the restore goes on; pod
	// 2 looks. Nothing accounts for a row of the journal.
	cleanUpAsks
	lastRule
)

var ruleNames = [lastRule]string{
	all:                       "all",
	epochByReplid:             "epochByReplid",
	replicaIsNoEpoch:          "replicaIsNoEpoch",
	sinceGrows:                "sinceGrows",
	cutoffAccounts:            "cutoffAccounts",
	enteringAddsNothing:       "enteringAddsNothing",
	excessIsAdded:             "excessIsAdded",
	earlierPlaceCountsOnce:    "earlierPlaceCountsOnce",
	handReplacesNothing:       "handReplacesNothing",
	duplicatesRemembered:      "duplicatesRemembered",
	forgetsAfterTenSeconds:    "forgetsAfterTenSeconds",
	silenceForgetsNothing:     "silenceForgetsNothing",
	keepsUntilTaken:           "keepsUntilTaken",
	newEpochCompares:          "newEpochCompares",
	restoreCompares:           "restoreCompares",
	takingComparesNothing:     "takingComparesNothing",
	whoStandsGetsEpoch:        "whoStandsGetsEpoch",
	markIsNoAnswer:            "markIsNoAnswer",
	terminatingAsks:           "terminatingAsks",
	terminatingTellsElsewhere: "terminatingTellsElsewhere",
	commitAsks:                "commitAsks",
	podsPassSeen:              "podsPassSeen",
	catalogLiftsLast:          "catalogLiftsLast",
	pagesCarryEpoch:           "pagesCarryEpoch",
	copyAsks:                  "copyAsks",
	upToOfFirstReply:          "upToOfFirstReply",
	lowerOfUpToAndSince:       "lowerOfUpToAndSince",
	tenSecondsBefore:          "tenSecondsBefore",
	upToStaysWhileDue:         "upToStaysWhileDue",
	upToStaysWhileUnclean:     "upToStaysWhileUnclean",
	journalFirst:              "journalFirst",
	fallbackReadsAll:          "fallbackReadsAll",
	marksReadAll:              "marksReadAll",
	returnedIntoJournal:       "returnedIntoJournal",
	restoreLocksJournal:       "restoreLocksJournal",
	placesMoveForward:         "placesMoveForward",
	unknownMarkGoes:           "unknownMarkGoes",
	marksAreWrittenAgain:      "marksAreWrittenAgain",
	marksAreEntered:           "marksAreEntered",
	marksNeedNoGap:            "marksNeedNoGap",
	handIsNoArrival:           "handIsNoArrival",
	removesExactly:            "removesExactly",
	endSeesEpoch:              "endSeesEpoch",
	movedLowersAccepted:       "movedLowersAccepted",
	notInFirstRestore:         "notInFirstRestore",
	leftAtMostBefore:          "leftAtMostBefore",
	leftWithoutEntered:        "leftWithoutEntered",
	leftIsLowered:             "leftIsLowered",
	restoreWaits:              "restoreWaits",
	bornBeforeOpening:         "bornBeforeOpening",
	promotedIsCompared:        "promotedIsCompared",
	lateAreEntered:            "lateAreEntered",
	dueOtherEpoch:             "dueOtherEpoch",
	dueMissing:                "dueMissing",
	dueMarks:                  "dueMarks",
	handMarksNotCounted:       "handMarksNotCounted",
	dueReturned:               "dueReturned",
	dueAsked:                  "dueAsked",
	settlesNothingWhileDue:    "settlesNothingWhileDue",
	checksBeforeCommit:        "checksBeforeCommit",
	gapHolds:                  "gapHolds",
	gapRestoresOnce:           "gapRestoresOnce",
	finalisesNothingWhileDue:  "finalisesNothingWhileDue",
	endIsTakenBack:            "endIsTakenBack",
	earlierPlacesAreCleaned:   "earlierPlacesAreCleaned",
	cleanUpAsks:               "cleanUpAsks",
}
