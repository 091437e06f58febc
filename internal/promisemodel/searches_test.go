package promisemodel

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// search is how a rule's absence is found: breadth first after some steps, or by random walks from the beginning.
type search struct {
	law   law
	kinds []action
	after []step
}

func by(pod int8, actions ...action) (steps []step) {
	for _, a := range actions {
		steps = append(steps, step{action: a, pod: pod})
	}
	return steps
}

func of(user int8, actions ...action) (steps []step) {
	for _, a := range actions {
		steps = append(steps, step{action: a, user: user})
	}
	return steps
}

func applying(user, pod int8) []step { return []step{{action: applies, user: user, pod: pod}} }

var (
	loss     = []action{replicaStops, failover}
	lateLoss = []action{replicaStops, failoverLate}
	fallback = []action{databaseStops, databaseFalls}

	oneUser  = law{users: 1, accepts: 2, coarse: true}
	twoUsers = law{users: 2, accepts: 3, coarse: true}
	bothLook = slices.Concat(by(0, looks), by(1, looks))
	restored = of(0, restoreBegin, restoreContinue, restoreContinue, restoreContinue)
	issued   = of(0, settleImmediately, checkAgain, cleanUp)

	// Pod 1 is late: user 1 was lost, and the new server is restored.
	late = slices.Concat(of(0, replicaStops, applies, failover, podCutOff), by(1, looks),
		of(0, tenSecondsPass, restoreBegin, restoreContinue), by(1, looks))
	// It hands user 1 over after the journal has come further.
	handedLate = slices.Concat(of(0, reachesRedis, looks, restoreBegin, restoreContinue), bothLook)
	further    = slices.Concat(late, applying(1, 1), of(0, copyBegin, tenSecondsPass))
)

// A restore is about to move user 2 forward, and a close-out has read the later place.
var recordedLater = steps(of(0, replicaStops), applying(1, 1), of(0, failover), by(1, podCutOff),
	of(0, looks, tenSecondsPass), restored, of(0, looks), applying(0, 0), applying(1, 0),
	of(0, settleImmediately, readLine, checkAgain, commitSettlement, cleanUp, closeOut), by(1, reachesRedis, looks),
	of(0, restoreBegin, restoreContinue))

func (l law) fine() law              { l.coarse = false; return l }
func (l law) beforeOpening() law     { l.early = true; return l }
func (l law) atNight() law           { l.nightly = true; return l }
func (l law) faulty(faults int8) law { l.faults = faults; return l }
func (l law) operated(acts int8) law { l.acts = acts; return l }
func (l law) promisedInJournal() law { l.afterJournal = true; return l }
func kinds(all ...[]action) []action { return slices.Concat(all...) }
func and(actions ...action) []action { return actions }
func steps(parts ...[]step) []step   { return slices.Concat(parts...) }

var searches = map[rule]search{
	epochByReplid:       {law: twoUsers.faulty(1), kinds: and(replicaStops, demoted)},
	replicaIsNoEpoch:    {law: twoUsers.faulty(1), kinds: and(replicaComes)},
	sinceGrows:          {law: twoUsers.faulty(1).fine(), kinds: lateLoss},
	cutoffAccounts:      {law: twoUsers.faulty(1), kinds: and(flushed)},
	enteringAddsNothing: {law: twoUsers.faulty(1), kinds: and(queueDeleted)},
	earlierPlaceCountsOnce: {law: twoUsers.faulty(2).fine(), after: steps(recordedLater, of(0, restoreContinue,
		restoreContinue, closeOut, settleImmediately, readLine))},
	excessIsAdded: {law: oneUser.faulty(2), after: steps(applying(0, 0), of(0, flushed), bothLook,
		of(0, tenSecondsPass, restoreBegin, restoreContinue))},
	handReplacesNothing: {law: oneUser.faulty(2).operated(1), after: steps(of(0, databaseStops, applies), issued,
		of(0, podDies, databaseFalls))},

	duplicatesRemembered: {law: oneUser.faulty(3), after: steps(of(0, databaseStops, applies, copyBegin),
		applying(0, 1), of(0, podDies, databaseFalls))},
	forgetsAfterTenSeconds: {law: oneUser.faulty(2), kinds: kinds(loss, fallback)},
	silenceForgetsNothing: {law: oneUser.faulty(2), after: of(0, applies, podCutOff, queueDeleted, restoreBegin,
		restoreContinue)},
	keepsUntilTaken: {law: twoUsers.faulty(2), kinds: loss},
	newEpochCompares: {law: twoUsers.faulty(1), after: steps(of(0, replicaStops, applies, failover), applying(1, 0),
		applying(0, 1))},
	restoreCompares:       {law: twoUsers.faulty(1), kinds: and(queueDeleted)},
	takingComparesNothing: {law: twoUsers.faulty(1), kinds: loss},
	terminatingAsks:       {law: oneUser.faulty(2), after: late},
	terminatingTellsElsewhere: {law: oneUser.faulty(1), after: of(0, failoverBoth, restoreBegin, formerLasts,
		restoreBegin, restoreContinue)},
	commitAsks: {law: oneUser.faulty(3).promisedInJournal(), after: steps(of(0, failoverBoth), by(1, podDies),
		applying(0, 1), of(0, commitsPromise, formerReturns))},
	podsPassSeen: {law: twoUsers.faulty(1), kinds: lateLoss},

	copyAsks: {law: oneUser.faulty(2), kinds: and(failoverBoth, formerReturns, podDies),
		after: of(0, failoverBoth, formerEnds)},
	upToOfFirstReply:  {law: twoUsers.faulty(2).fine(), kinds: and(queueDeleted)},
	upToStaysWhileDue: {law: twoUsers.faulty(2), kinds: kinds(loss, and(queueDeleted))},
	upToStaysWhileUnclean: {law: twoUsers.faulty(2).operated(1).fine(), after: steps(of(0, applies, settleImmediately,
		readLine, checkAgain, rowRefused, closeOut), applying(1, 1), of(0, retryDLQ, checkAgain, commitSettlement,
		closeOut), restored, bothLook, of(0, queueDeleted, copyBegin, copyRead))},
	journalFirst: {law: oneUser.faulty(3), after: steps(of(0, databaseStops, applies), issued,
		of(0, databaseFalls, podDies), bothLook, of(0, restoreBegin, restoreContinue))},
	fallbackByWritten: {law: twoUsers.faulty(4), after: steps(further, of(0, databaseStops), handedLate,
		of(0, databaseFalls, copyBegin))},

	returnedIntoJournal: {law: twoUsers.faulty(3), after: steps(further, handedLate)},
	restoreLocksJournal: {law: oneUser.faulty(2).fine(), after: of(0, applies, copyBegin, copyRead, podDies,
		queueDeleted, restoreBegin)},
	placesMoveForward:    {law: twoUsers.faulty(1), kinds: loss},
	marksAreWrittenAgain: {law: oneUser.faulty(1), kinds: kinds(loss, and(flushed))},
	marksAreEntered:      {law: oneUser.faulty(2), after: steps(of(0, databaseStops, applies), issued, of(0, podDies))},
	marksNeedNoGap: {law: twoUsers.faulty(2), after: steps(applying(0, 0), of(0, databaseStops, settleImmediately,
		replicaStops), applying(1, 1), of(0, checkAgain, failover, looks, cleanUp))},
	handIsNoArrival: {law: twoUsers.faulty(1).operated(1), kinds: kinds(fallback, and(grantByHand))},
	removesExactly: {law: oneUser.faulty(2).fine(), after: steps(applying(0, 0), of(0, queueDeleted), restored,
		applying(0, 1), of(0, queueDeleted), restored, by(1, looks), of(0, restoreBegin))},
	endSeesEpoch:        {law: oneUser.faulty(2).fine(), kinds: kinds(loss, and(flushed))},
	movedLowersAccepted: {law: oneUser.faulty(1), kinds: and(queueDeleted)},
	leftAtMostBefore:    {law: twoUsers.faulty(2).fine(), kinds: and(queueDeleted)},
	leftWithoutEntered: {law: twoUsers.faulty(2).fine(), after: steps(applying(1, 0), of(0, queueDeleted), restored,
		by(0, looks), of(0, restoreBegin), applying(0, 0))},
	leftIsLowered: {law: twoUsers.faulty(3).operated(1), after: steps(of(0, applies, podDies, queueDeleted,
		restoreBegin, restoreContinue), by(1, looks), of(0, acceptGap), applying(1, 1),
		of(0, copyBegin, restoreBegin))},
	restoreWaits: {law: twoUsers.faulty(1), after: steps(of(0, replicaStops), applying(1, 1), of(0, failover,
		restoreBegin))},
	bornBeforeOpening: {law: twoUsers.faulty(1), kinds: and(flushed)},

	promotedIsCompared: {law: twoUsers.faulty(1).beforeOpening(), kinds: and(failoverBoth)},
	lateAreEntered:     {law: oneUser.faulty(1).operated(1), kinds: and(failoverBoth, closeWindow)},

	dueOtherEpoch: {law: oneUser.faulty(2), kinds: and(failoverBoth, formerReturns, podDies)},
	dueMissing:    {law: oneUser.faulty(1), kinds: and(queueDeleted)},
	dueMarks:      {law: oneUser.faulty(1), kinds: and(marksDeleted)},
	dueReturned:   {law: oneUser.faulty(2), after: late[:len(late)-3]},
	dueAsked:      {law: oneUser.faulty(2), after: late},
	handMarksNotCounted: {law: twoUsers.atNight().operated(2), after: steps(applying(0, 0), applying(1, 1),
		of(0, settleNightly, checkAgain, cleanUp, closeOut, closeOut), of(1, cleanUp, forgetUser))},

	settlesNothingWhileDue: {law: twoUsers.faulty(1), kinds: loss},
	checksBeforeCommit: {law: twoUsers.faulty(2).fine(), after: steps(of(0, replicaStops, applies, failover),
		applying(1, 1), bothLook, of(0, tenSecondsPass, replicaStops), restored, bothLook, of(0, settleImmediately))},
	gapHolds: {law: twoUsers.faulty(1), kinds: and(queueDeleted)},
	gapRestoresOnce: {law: oneUser.faulty(2).atNight().promisedInJournal(), after: of(0, applies,
		queueDeleted, restoreBegin, restoreContinue, commitsPromise)},
	finalisesNothingWhileDue: {law: oneUser.faulty(1).operated(2), kinds: and(flushed, closeWindow, finalise)},
	endIsTakenBack:           {law: oneUser.faulty(1).operated(2), after: of(0, replicaStops, closeWindow, finalise)},
	earlierPlacesAreCleaned:  {law: twoUsers.faulty(2).fine(), after: recordedLater},
	cleanUpAsks:              {law: twoUsers.faulty(1).operated(1), kinds: kinds(loss, and(settlePast))},
}

// notShown are rules without which nothing was found; doc.go and the rules say why.
var notShown = []rule{whoStandsGetsEpoch, markIsNoAnswer, catalogLiftsLast, pagesCarryEpoch,
	lowerOfUpToAndSince, tenSecondsBefore, fallbackReadsAll, marksReadAll, unknownMarkGoes, notInFirstRestore}

// run returns the shortest sequence to a violation in a world without a rule.
func (s search) run(r rule) (violation string, sequence []step) {
	s.law.broken = r
	l := s.law.with(s.kinds...)
	var found map[string][]step
	if s.after == nil {
		found = walk(l, 0, 60_000, 30, true).found
	} else {
		if s.kinds == nil {
			l = s.law.withAll()
		}
		l.after = s.after
		found = explore(l, time.Minute, true).found
	}
	for violation, sequence = range found {
		return violation, l.shorten(slices.Concat(s.after, sequence), violation)
	}
	return "", nil
}

func TestWithoutARuleAPromiseIsBroken(t *testing.T) {
	t.Parallel()
	for r := all + 1; r < lastRule; r++ {
		s, searched := searches[r]
		require.NotEqual(t, searched, slices.Contains(notShown, r), "rule %s", ruleNames[r])
		if !searched {
			continue
		}
		violation, sequence := s.run(r)
		require.NotEmpty(t, violation, "nothing is found without the rule %s", ruleNames[r])
		t.Logf("%s: %s\n%s", ruleNames[r], violation, tell(sequence))
	}
}
