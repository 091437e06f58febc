package main

import (
	"errors"
	"time"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/walletapi"
)

const (
	// maxInFlight is a bound, so that a mistyped number does not switch the limit off.
	maxInFlight = 1_000_000
	// minReserveTTL is long enough for a call to the payment service.
	minReserveTTL = 10 * time.Second
	// maxReserveTTL bounds for how long a forgotten order blocks a coupon.
	maxReserveTTL = 24 * time.Hour
)

type settings struct {
	MySQL connect.MySQLSettings `embed:""`
	Log   connect.LogSettings   `embed:""`

	Listen      string            `name:"wallet-listen" env:"WALLET_LISTEN" default:":8082" placeholder:"HOST:PORT"`
	AdminListen string            `name:"wallet-admin-listen" env:"WALLET_ADMIN_LISTEN" default:":9092" placeholder:"HOST:PORT"`
	KeysFile    string            `name:"service-keys-file" env:"SERVICE_KEYS_FILE" type:"path" placeholder:"FILE"`
	ReserveTTL  time.Duration     `name:"reserve-ttl" env:"RESERVE_TTL" default:"15m" placeholder:"DURATION"`
	MaxInFlight int               `name:"max-in-flight" env:"MAX_IN_FLIGHT" default:"4096" placeholder:"N"`
	HTTP        httpapi.Settings  `embed:""`
	Identity    identity.Settings `embed:""`
	Version     kong.VersionFlag  `name:"version"`

	keys *walletapi.ServiceKeys `kong:"-"` // set by Validate
}

func (s *settings) Validate() error {
	problems := []error{connect.CheckListen("WALLET_LISTEN", s.Listen), connect.CheckListen("WALLET_ADMIN_LISTEN", s.AdminListen)}
	var err error
	if s.keys, err = walletapi.LoadKeys(s.KeysFile); err != nil {
		problems = append(problems, err)
	}
	if s.ReserveTTL < minReserveTTL || s.ReserveTTL > maxReserveTTL {
		problems = append(problems, text.UsageErrorf(text.WrongReserveTTL, s.ReserveTTL, minReserveTTL, maxReserveTTL))
	}
	if s.MaxInFlight < 1 || s.MaxInFlight > maxInFlight {
		problems = append(problems, text.UsageErrorf(text.WrongNumber, "MAX_IN_FLIGHT", s.MaxInFlight, maxInFlight))
	}
	return errors.Join(problems...)
}
