package cli

import (
	"context"
	"errors"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

type userCmd struct {
	Show   userShowCmd   `cmd:""`
	Export userExportCmd `cmd:""`
	Forget userForgetCmd `cmd:""`
}

type userShowCmd struct {
	User   coupon.UserID `required:"" placeholder:"USER"`
	Output string        `enum:"table,json" default:"table" form:"-"`
}

func (*userShowCmd) Declare() verb.Declaration {
	return verb.Declaration{Right: signin.SeePerson, API: "GET /v1/users/{user}"}
}

func (c *userShowCmd) read(ctx context.Context, p *program, s *servers) error {
	return p.showUser(ctx, s, c.User, c.Output == "json")
}

type userExportCmd struct {
	User coupon.UserID `required:"" placeholder:"USER"`
}

func (c *userExportCmd) read(ctx context.Context, p *program, s *servers) error {
	return p.showUser(ctx, s, c.User, true)
}

func (p *program) showUser(ctx context.Context, s *servers, user coupon.UserID, json bool) error {
	person, redisErr, err := privacy.Read(ctx, s.MySQL, s.store, user)
	if err != nil {
		return err
	}
	if json {
		err = output.JSON(p.Stdout, person)
	} else {
		p.view().Person(person)
	}
	if redisErr != nil {
		p.warn(text.RedisOfUserUnknown, redisErr)
		return errors.Join(err, worst(classOf(redisErr)))
	}
	return err
}

type userForgetCmd struct {
	User          coupon.UserID `required:"" placeholder:"USER"`
	operatorFlags `embed:""`
	Output        string `enum:"table,json" default:"table"`
}

func (c *userForgetCmd) Validate() error { return c.operatorFlags.check(text.OperatorIsRecorded) }

func (c *userForgetCmd) run(ctx context.Context, p *program) error {
	s, err := p.openWriting(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	origin := p.origin(c.operatorFlags)
	done, err := privacy.Forget(ctx, mysqltx.New(s.MySQL), s.store, c.User, origin)
	if err != nil {
		return p.printRefusal(err)
	}
	if c.Output == "json" {
		return output.JSON(p.Stdout, done)
	}
	p.view().Forgotten(done)
	return nil
}
