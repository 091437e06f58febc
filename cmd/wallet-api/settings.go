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
	// maxInFlight is how many requests may wait for MySQL, half of them for wallets. MySQL answers 32 at a time;
	// the others wait for some seconds, or get 503 after five.
	maxInFlight = 4096
	// minReserveTTL is long enough for a call to the payment service.
	minReserveTTL = 10 * time.Second
	// maxReserveTTL bounds for how long a forgotten order blocks a coupon.
	maxReserveTTL = 24 * time.Hour
)

type settings struct {
	MySQL connect.MySQLSettings `embed:""`
	Log   connect.LogSettings   `embed:""`

	Listen      string            `name:"wallet-listen" env:"WALLET_LISTEN" default:":8082" placeholder:"HOST:PORT"`
	AdminListen string            `name:"admin-listen" env:"ADMIN_LISTEN" default:":9092" placeholder:"HOST:PORT"`
	KeysFile    string            `name:"service-keys-file" env:"SERVICE_KEYS_FILE" type:"path" placeholder:"FILE"`
	ReserveTTL  time.Duration     `name:"reserve-ttl" env:"RESERVE_TTL" default:"15m" placeholder:"DURATION"`
	HTTP        httpapi.Settings  `embed:""`
	Identity    identity.Settings `embed:""`
	Version     kong.VersionFlag  `name:"version"`

	keys *walletapi.ServiceKeys `kong:"-"` // set by Validate
}

func (s *settings) Validate() error {
	problems := []error{connect.CheckListen("WALLET_LISTEN", s.Listen),
		connect.CheckListen("ADMIN_LISTEN", s.AdminListen)}
	var err error
	if s.keys, err = walletapi.LoadKeys(s.KeysFile); err != nil {
		problems = append(problems, err)
	}
	if s.ReserveTTL < minReserveTTL || s.ReserveTTL > maxReserveTTL {
		problems = append(problems, text.UsageErrorf(text.WrongReserveTTL, s.ReserveTTL, minReserveTTL, maxReserveTTL))
	}
	return errors.Join(problems...)
}
