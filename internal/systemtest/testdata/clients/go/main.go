// Command client talks to apply-api and the management API through the clients that oapi-codegen made of the contracts.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"example.com/client/admin"
	"example.com/client/apply"
	_ "example.com/client/wallet"
)

func main() {
	err := run(os.Args[1], os.Args[2])
	if err == nil {
		err = manage(os.Args[3], os.Args[4], os.Args[2])
	}
	if err == nil {
		err = give(os.Args[3], os.Args[5], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// open returns a client with a key, and the number of the coupon.
func open(server, key, coupon string) (client *admin.ClientWithResponses, id uint64, err error) {
	client, err = admin.NewClientWithResponses(server, admin.WithRequestEditorFn(
		func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+key)
			return nil
		}))
	if err == nil {
		id, err = strconv.ParseUint(coupon, 10, 64)
	}
	return client, id, err
}

// give gives the coupon to a list as a preview has shown it.
func give(server, key, coupon string) error {
	ctx := context.Background()
	client, id, err := open(server, key, coupon)
	if err != nil {
		return err
	}
	const list = "user_id\n1\n999999\n"
	yes, reason, once := true, "QUIZ-1", "a-list-from-go"
	preview, err := client.GrantCouponToListWithBodyWithResponse(ctx, id, &admin.GrantCouponToListParams{DryRun: &yes},
		"text/csv", strings.NewReader(list))
	if err != nil {
		return err
	}
	if p := preview.JSON200; p == nil || p.Digest == nil {
		return fmt.Errorf("the preview: %s", preview.Body)
	}
	done, err := client.GrantCouponToListWithBodyWithResponse(ctx, id, &admin.GrantCouponToListParams{
		Digest: preview.JSON200.Digest, Reason: &reason, IdempotencyKey: &once}, "text/csv", strings.NewReader(list))
	if err != nil {
		return err
	}
	if p := done.JSON200; p == nil || p.Granted == nil || *p.Granted != 1 || p.Unknown == nil || *p.Unknown != 1 {
		return fmt.Errorf("giving to a list: %s", done.Body)
	}
	return nil
}

// manage adds seats as a preview has shown it, once.
func manage(server, key, coupon string) error {
	ctx := context.Background()
	client, id, err := open(server, key, coupon)
	if err != nil {
		return err
	}
	yes, reason, once := true, "sold out early", "from-go"
	preview, err := client.AddSeatsWithResponse(ctx, id, &admin.AddSeatsParams{},
		admin.AddSeatsJSONRequestBody{Seats: 5, DryRun: &yes})
	if err != nil {
		return err
	}
	if p := preview.JSON200; p == nil || p.Digest == nil {
		return fmt.Errorf("the preview: %s", preview.Body)
	}
	for range 2 {
		done, err := client.AddSeatsWithResponse(ctx, id, &admin.AddSeatsParams{IdempotencyKey: &once},
			admin.AddSeatsJSONRequestBody{Seats: 5, Digest: preview.JSON200.Digest, Reason: &reason})
		if err != nil {
			return err
		}
		if c := done.JSON200; c == nil || c.Changed == nil || !*c.Changed {
			return fmt.Errorf("adding seats: %s", done.Body)
		}
	}
	frozen, err := client.FreezeCouponWithResponse(ctx, id, &admin.FreezeCouponParams{},
		admin.FreezeCouponJSONRequestBody{DryRun: &yes})
	if err != nil {
		return err
	}
	if p := frozen.ApplicationproblemJSON403; p == nil || p.Code != admin.ProblemCodeFORBIDDEN {
		return fmt.Errorf("freezing: %s", frozen.Body)
	}
	return nil
}

func run(server, coupon string) error {
	ctx := context.Background()
	client, err := apply.NewClientWithResponses(server)
	if err != nil {
		return err
	}
	request, seven, nine := "from-the-gateway", "7", "9"
	user := apply.ApplyParams{XUserID: &seven, XRequestID: &request}

	first, err := client.ApplyWithResponse(ctx, coupon, &user)
	if err != nil {
		return err
	}
	if a := first.JSON202; a == nil || a.Status != apply.ACCEPTED || a.Position < 1 || a.Detail == "" ||
		a.AppliedAt.IsZero() {
		return fmt.Errorf("applying: %s", first.Body)
	}
	second, err := client.ApplyWithResponse(ctx, coupon, &user)
	if err != nil {
		return err
	}
	if a := second.JSON200; a == nil || a.Status != apply.DUPLICATE || !a.AppliedAt.Equal(first.JSON202.AppliedAt) {
		return fmt.Errorf("applying again: %s", second.Body)
	}
	if got := second.HTTPResponse.Header.Get("X-Request-ID"); got != request {
		return fmt.Errorf("X-Request-ID is %q", got)
	}

	standing, err := client.StandingWithResponse(ctx, coupon, &apply.StandingParams{XUserID: &seven})
	if err != nil {
		return err
	}
	if a := standing.JSON200; a == nil || a.Status != apply.ApplicationStatusPENDING || a.WithinSeats == nil ||
		!*a.WithinSeats {
		return fmt.Errorf("asking: %s", standing.Body)
	}
	stranger, err := client.StandingWithResponse(ctx, coupon,
		&apply.StandingParams{XUserID: &nine, XRequestID: &request})
	if err != nil {
		return err
	}
	if p := stranger.ApplicationproblemJSON404; p == nil || p.Code != apply.ProblemCodeNOTAPPLIED ||
		p.Instance != "urn:jajeong:request:"+request {
		return fmt.Errorf("asking as a stranger: %s", stranger.Body)
	}

	shown, err := client.CouponWithResponse(ctx, coupon, &apply.CouponParams{})
	if err != nil {
		return err
	}
	if c := shown.JSON200; c == nil || c.Status != apply.CouponStatusOPEN || c.Name == "" {
		return fmt.Errorf("a coupon: %s", shown.Body)
	}
	several, err := client.CouponsWithResponse(ctx, &apply.CouponsParams{Ids: coupon})
	if err != nil {
		return err
	}
	if c := several.JSON200; c == nil || len(c.Coupons) != 1 || c.Coupons[0].CouponId != shown.JSON200.CouponId {
		return fmt.Errorf("coupons: %s", several.Body)
	}
	clock, err := client.TimeWithResponse(ctx, coupon, &apply.TimeParams{})
	if err != nil {
		return err
	}
	if c := clock.JSON200; c == nil || c.ServerTime.Before(first.JSON202.AppliedAt) {
		return fmt.Errorf("the time: %s", clock.Body)
	}
	return nil
}
