package main

import (
	"errors"
	"time"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/receipt"
	"github.com/jajeong/jajeong/internal/text"
)

const (
	// maxInFlight is how many applications may wait for one shard of Redis. A call takes 250 of them and lasts a
	// millisecond: 4096 wait for 20 ms. More wait only if Redis does not answer, and then everybody soon gets 503
	// anyway.
	maxInFlight = 4096
	// maxStreams is a bound, so that a mistyped number does not switch the limit off.
	maxStreams = 1_000_000
)

// acceptAfterJournal is the value of ACCEPT_AFTER that makes answers wait for the journal.
const acceptAfterJournal = "journal"

type settings struct {
	MySQL      connect.MySQLSettings `embed:""`
	Redis      connect.RedisSettings `embed:""`
	Log        connect.LogSettings   `embed:""`
	Candidates candidates.Options    `embed:""`
	Issue      connect.IssueSettings `embed:""`

	Listen      string            `name:"apply-listen" env:"APPLY_LISTEN" default:":8080" placeholder:"HOST:PORT"`
	AdminListen string            `name:"admin-listen" env:"ADMIN_LISTEN" default:":9090" placeholder:"HOST:PORT"`
	LiveListen  string            `name:"live-listen" env:"LIVE_LISTEN" default:":8081" placeholder:"HOST:PORT"`
	ReceiptKeys string            `name:"receipt-keys-file" env:"RECEIPT_KEYS_FILE" type:"path" placeholder:"FILE"`
	AcceptAfter string            `name:"accept-after" env:"ACCEPT_AFTER" enum:"redis,journal" default:"redis"`
	MaxStreams  int               `name:"max-streams" env:"MAX_STREAMS" default:"20000" placeholder:"N"`
	HTTP        httpapi.Settings  `embed:""`
	Identity    identity.Settings `embed:""`
	Version     kong.VersionFlag  `name:"version"`

	receipts *receipt.Keys `kong:"-"` // nil without ReceiptKeys; set by Validate
}

func (s *settings) Validate() error {
	var err error
	problems := []error{connect.CheckListen("APPLY_LISTEN", s.Listen),
		connect.CheckListen("ADMIN_LISTEN", s.AdminListen), connect.CheckListen("LIVE_LISTEN", s.LiveListen)}
	if s.ReceiptKeys != "" {
		if s.receipts, err = receipt.Load(s.ReceiptKeys, time.Now); err != nil {
			problems = append(problems, err)
		}
	}
	if s.MaxStreams < 1 || s.MaxStreams > maxStreams {
		problems = append(problems, text.UsageErrorf(text.WrongNumber, "MAX_STREAMS", s.MaxStreams, maxStreams))
	}
	return errors.Join(problems...)
}
