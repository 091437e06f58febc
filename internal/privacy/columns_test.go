package privacy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/privacy"
)

// ofAPerson matches the columns by which a row belongs to a user: directly, by an issued coupon, or by an order.
var ofAPerson = regexp.MustCompile(`(^|_)user(_|$)|(^|_)order_id$`)

// Why a column of a person is not in the export.
const (
	link     = "says whose the row is; the export is of that person"
	internal = "serves the programs: says nothing of the person"
	staff    = "is of the staff who did it, not of the person"
	shops    = "is the shop's own table, which the shop exports"
)

// leftOut are the columns that the export does not have, by table; "*" are all columns of a table.
var leftOut = map[string]map[string]string{
	"user":                {"*": shops},
	"user_coupon":         {"user_id": link, "position": internal, "run_id": internal, "seq": internal},
	"coupon_order":        {"user_id": link, "user_coupon_id": link},
	"coupon_log":          {"id": internal, "user_coupon_id": link, "seats": internal, "published_at": internal},
	"application_outcome": {"user_id": link, "run_id": internal, "member": "is set where user_id names nobody"},
	"line_journal":        {"user_id": link},
	"user_application":    {"*": "lists the rows of application_outcome"},
	"settlement":          {"*": "has counts; first_user_coupon_id is where the relay begins to read"},
	"audit_event": {
		"id": internal, "user_id": link, "run_id": internal, "seats": internal, "seq": internal, "hash": internal,
		"user_salt": internal, "user_hash": internal, "account": staff, "sign_in": staff,
	},
	"approval": {
		"user_id": link, "digest": internal, "maker_sign_in": staff, "maker_account": staff, "expires_at": internal,
		"checker": staff, "checker_sign_in": staff, "checker_account": staff, "policy_id": internal,
		"decided_at": staff,
		"approved":   staff, "remark": staff, "voided_at": internal, "void_plan": internal, "used_at": internal,
		"run_id": internal,
	},
}

// A table or a column with something of a user is in the export, or leftOut says why it is not. In the rows of the user
// below, each exported column has a value of its own, and the export must have that value.
func TestRead_HasEveryColumnOfAUser(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	const user = 7
	open := d.AddCoupon(1)
	now := d.Now().UTC().Truncate(time.Second)
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
	d.Exec(`INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at) VALUES (4242, 'x', 9, ?, ?)`,
		at(-900), at(900))
	d.Exec(`INSERT INTO user_coupon (id, coupon_id, user_id, applied_at, issued_at, expires_at, status, order_id)
		VALUES (5001, 4242, ?, ?, ?, ?, 'RESERVED', 'O-1')`, user, at(1), at(2), at(900))
	d.Exec(`INSERT INTO coupon_order (order_id, user_coupon_id, user_id, amount_won, discount_won, state,
		reserved_until)
		VALUES ('O-1', 5001, ?, 61000, 61001, 'USED', ?)`, user, at(800))
	d.Exec(`INSERT INTO coupon_log (user_coupon_id, seq, kind, order_id, amount_won, discount_won, expires_at, actor,
		at)
		VALUES (5001, 71, 'EXTENDED', 'O-2', 62000, 62001, ?, 'checkout', ?)`, at(901), at(3))
	d.Exec(`INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, cause, note, run_id, recorded_at)
		VALUES (4242, ?, ?, 'REJECTED', 'INACTIVE_USER', 'why-1', 1, ?)`, user, at(4), at(5))
	d.Exec(`INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, ?, ?)`, open, coupon.ArrivalAt(at(6)),
		user)
	d.Exec(`INSERT INTO audit_event (at, actor, action, coupon_id, user_id, reason, detail, account)
		VALUES (?, 'kim', 'COUPON_GRANTED', 4242, ?, 'why-2', 'what-2', 'a')`, at(7), user)
	d.Exec(`INSERT INTO approval (id, action, coupon_id, user_id, plan, digest, reason, maker, maker_sign_in,
		maker_account,
		created_at, expires_at) VALUES (8001, 'grant', 4242, ?, '{"p":1}', 'd', 'why-3', 'lee', '', 'a', ?, ?)`, user,
		at(8), at(9))

	person, redisErr, err := privacy.Read(t.Context(), d.DB, d.Store, user)
	require.NoError(t, redisErr)
	require.NoError(t, err)
	exported := leaves(t, person)
	columns := map[string][]string{}
	for _, name := range jajeongtest.Column[string](d, `SELECT CONCAT(table_name, '.', column_name)
		FROM information_schema.columns
		WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`) {
		table, column, _ := strings.Cut(name, ".")
		columns[table] = append(columns[table], column)
	}
	seen := map[string]string{}
	for _, table := range slices.Sorted(maps.Keys(columns)) {
		out := leftOut[table]
		if table != "user" && !slices.ContainsFunc(columns[table], ofAPerson.MatchString) || out["*"] != "" {
			continue
		}
		for column := range out {
			require.Contains(t, columns[table], column, "leftOut names a column of %s that there is not", table)
		}
		for _, column := range columns[table] {
			if out[column] != "" {
				continue
			}
			name := table + "." + column
			values := jajeongtest.Column[string](d, fmt.Sprintf("SELECT COALESCE(%s, '') FROM `%s`", column, table))
			require.Len(t, values, 1, "%s: insert a row of the user above, and export it; or name it in leftOut", name)
			require.NotContains(t, []string{"", "0"}, values[0],
				"%s: insert a value above, and export it; or name it in leftOut", name)
			value := normal(column, values[0])
			require.Contains(t, exported, value, "%s: export it, or name it in leftOut", name)
			other, twice := seen[value]
			require.True(t, !twice || other == column, "%s has the value of %s: give each its own", name, other)
			seen[value] = column
		}
	}
	require.Greater(t, len(seen), 30)
}

// leaves are the values in a document.
func leaves(t *testing.T, of any) map[string]bool {
	t.Helper()
	content, err := json.Marshal(of)
	require.NoError(t, err)
	found := map[string]bool{}
	decoder := json.NewDecoder(strings.NewReader(string(content)))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return found
		}
		found[normal("", fmt.Sprint(token))] = true
	}
}

// normal writes instants as MySQL does; an arrival counts µs since 1970.
func normal(column, value string) string {
	const asMySQL = "2006-01-02 15:04:05.000000"
	if column == "arrival" {
		var arrival coupon.Arrival
		if _, err := fmt.Sscan(value, &arrival); err == nil {
			return arrival.Time().UTC().Format(asMySQL)
		}
	}
	for _, layout := range []string{time.RFC3339Nano, asMySQL} {
		if at, err := time.Parse(layout, value); err == nil {
			return at.UTC().Format(asMySQL)
		}
	}
	return value
}
