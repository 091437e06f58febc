package console

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

// receiptForm is what a receipt looks like: three parts of base64url.
var receiptForm = regexp.MustCompile(`^[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}$`)

// maxQuery is longer than a receipt.
const maxQuery = 2000

func (c *Console) search(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	user, of := strings.TrimSpace(values.Get("user")), strings.TrimSpace(values.Get("coupon"))
	if user != "" && of != "" {
		c.searchOne(w, r, user, of)
		return
	}
	q := strings.TrimSpace(values.Get("q"))
	if q == "" || len(q) > maxQuery {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleSearchWhat)
		return
	}
	p := c.page(r, language(r).Sprintf(text.ConsoleSearch))
	p.Query = output.Printable(q)
	if receipt := strings.Join(strings.Fields(q), ""); receiptForm.MatchString(receipt) {
		c.verb(r.Context(), p, "receipt show", verb.Values{"receipt": receipt})
		c.change(p, "honour", "receipt", receipt)
		c.show(w, p.status(), p)
		return
	}
	found, err := c.Reads.Search(r.Context(), q)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	if found.OrderUser > 0 {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleOrder, p.Query, found.OrderUser, found.OrderCoupon),
			Href: fmt.Sprintf("/people/%d/coupons/%d", found.OrderUser, found.OrderCoupon)})
	}
	if found.Number > 0 {
		p.Links = append(p.Links, link{Text: p.say(text.ConsolePersonText, q), Href: "/people/" + q})
	}
	if found.Coupon > 0 {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleCoupon, found.Coupon), Href: "/coupons/" + q})
	}
	if found.Run > 0 {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleRun, found.Run), Href: "/runs/" + q})
	}
	switch len(p.Links) {
	case 0:
		p.Lead = []string{p.say(text.ConsoleNothingFound, p.Query)}
	case 1:
		http.Redirect(w, r, p.Links[0].Href, http.StatusSeeOther)
		return
	}
	c.show(w, http.StatusOK, p)
}

// searchOne leads to the coupon of one user.
func (c *Console) searchOne(w http.ResponseWriter, r *http.Request, user, of string) {
	for _, typed := range []struct {
		value string
		label text.Message
	}{{user, text.ColumnUser}, {of, text.ColumnCoupon}} {
		if !isID(typed.value) {
			c.refused(w, r, http.StatusUnprocessableEntity, text.ConsoleWrongField, language(r).Sprintf(typed.label),
				coupon.ShownMember(typed.value))
			return
		}
	}
	http.Redirect(w, r, "/people/"+user+"/coupons/"+of, http.StatusSeeOther)
}

// isID reports whether a typed number is a canonical decimal from 1 to 2^64-1, as an id is.
func isID(typed string) bool { return coupon.ParseUserID(typed) > 0 }
