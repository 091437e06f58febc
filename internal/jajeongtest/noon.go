package jajeongtest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
)

// SetZone makes the nights of the deployment those of another zone, as if it had been made so.
func (d *Deployment) SetZone(name string) {
	d.T.Helper()
	d.Exec("UPDATE policy SET zone = ?", name)
	d.Exec("UPDATE deployment SET zone = ?", name)
}

// Noon is a time zone in which it is about noon, so that no midnight strikes during a test. A deployment has one.
func (d *Deployment) Noon() *time.Location {
	d.T.Helper()
	if d.noon != nil {
		return d.noon
	}
	name, behind := "Etc/GMT", d.Now().UTC().Hour()-12 // hours; the signs in these names are the other way round
	if behind != 0 {
		name += fmt.Sprintf("%+d", behind)
	}
	zone, err := time.LoadLocation(name)
	require.NoError(d.T, err)
	d.noon = zone
	return zone
}
