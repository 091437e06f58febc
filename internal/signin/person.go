// Package signin says who uses the console, and what this person may do.
//
// A person signs in with OpenID Connect, or at a proxy that sends X-Forwarded-User. A development user needs neither,
// and only reaches the console by localhost. Groups of the provider or the proxy give a person roles. Sessions are in
// memory: after a restart of the console, the provider signs a person in again without a question.
package signin

import (
	"context"
	"slices"
)

// Role is what a group gives a person.
type Role string

const (
	Viewer    Role = "viewer"
	Marketing Role = "marketing"
	CS        Role = "cs"
	Finance   Role = "finance"
	Operator  Role = "operator"
)

var allRoles = []Role{Viewer, Marketing, CS, Finance, Operator}

// IsRole reports whether there is a role of this name.
func IsRole(name string) bool { return slices.Contains(allRoles, Role(name)) }

// Right is a kind of page or change.
type Right int

const (
	See          Right = iota // tonight, coupons, runs: figures without persons
	Act                       // forms, one's own jobs and requests; each change needs its right, too
	SeePerson                 // one person at a time
	ChangePerson              // the coupon of one person: grant, revoke, reissue, extend
	GrantList                 // give a coupon to a list of persons
	ReviewPerson              // retry and drop the DLQ entry of one person
	SeeLists                  // lists of persons, the DLQ, reports, approvals
	Settle                    // run again, accept a gap, retry and drop DLQ entries of many
	Campaign                  // create coupons, and change their windows, seats and cadence
	ChangeCoupon              // freeze, recount, restore
	Approve                   // what another person has asked for
	SetPolicy                 // which actions need an approval
)

var rights = map[Right][]Role{
	See:          allRoles,
	Act:          {Marketing, CS, Finance, Operator},
	SeePerson:    {CS, Finance, Operator},
	ChangePerson: {CS, Operator},
	GrantList:    {Finance, Operator},
	ReviewPerson: {CS, Finance, Operator},
	SeeLists:     {Finance, Operator},
	Settle:       {Finance, Operator},
	Campaign:     {Marketing, Operator},
	ChangeCoupon: {Operator},
	Approve:      {Finance, Operator},
	SetPolicy:    {Operator},
}

// Person is signed in.
type Person struct {
	Name  string
	Roles []Role
	// SignIn identifies the person: the issuer and subject of OpenID Connect, or the name that the proxy sends.
	SignIn string
}

// May reports whether one of the person's roles gives the right.
func (p Person) May(r Right) bool {
	return slices.ContainsFunc(p.Roles, func(role Role) bool { return slices.Contains(rights[r], role) })
}

// MaySeeRequest reports whether the person may see a request for approval: without the right to see lists only an own
// one, and one about a user only with the right to see persons.
func (p Person) MaySeeRequest(own, aboutUser bool) bool {
	return (own || p.May(SeeLists)) && (!aboutUser || p.May(SeePerson))
}

type personKey struct{}

// With returns a context with the person of a request.
func With(ctx context.Context, p Person) context.Context {
	return context.WithValue(ctx, personKey{}, p)
}

// From returns the person of a request that Guard has let pass; the zero Person has no rights.
func From(ctx context.Context) Person {
	p, _ := ctx.Value(personKey{}).(Person)
	return p
}
