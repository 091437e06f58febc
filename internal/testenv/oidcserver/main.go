// Command oidcserver is an OpenID provider for tests. It signs in five persons whose password is their name, and serves
// one client.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// groups of the persons.
var groups = map[string][]string{
	"kim": {"team-finance"}, "lee": {"team-finance"}, "park": {"team-cs"}, "choi": {"team-ops"}, "yoon": {},
}

// users is a storage.UserStore. The id of a person is the name.
type users struct{}

func (users) GetUserByID(id string) *storage.User {
	if _, known := groups[id]; !known {
		return nil
	}
	return &storage.User{ID: id, Username: id, Password: id, Email: id + "@example.com", EmailVerified: true}
}

func (u users) GetUserByUsername(name string) *storage.User { return u.GetUserByID(name) }
func (users) ExampleClientID() string                       { return "other" }

// withGroups adds the groups to the userinfo document.
type withGroups struct{ *storage.Storage }

func (s withGroups) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, subject,
	origin string) error {
	if err := s.Storage.SetUserinfoFromToken(ctx, info, tokenID, subject, origin); err != nil {
		return err
	}
	info.PreferredUsername = subject
	info.AppendClaims("groups", groups[subject])
	return nil
}

func main() {
	client := flag.String("client", "jajeong", "id of the client")
	secret := flag.String("secret", "", "secret of the client")
	redirect := flag.String("redirect", "", "redirect address of the client")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	issuer := "http://" + listener.Addr().String()
	storage.RegisterClients(storage.WebClient(*client, *secret, *redirect),
		storage.WebClient("other", "other", *redirect))
	handler := exampleop.SetupServer(issuer, withGroups{storage.NewStorage(users{})},
		slog.New(slog.NewTextHandler(io.Discard, nil)), false, op.WithAllowInsecure())
	fmt.Println(issuer)
	log.Fatal(http.Serve(listener, handler))
}
