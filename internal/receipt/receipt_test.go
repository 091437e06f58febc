package receipt_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/receipt"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

// noon is the clock of all tests.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return noon }

// one is a receipt of noon.
var one = receipt.Receipt{Coupon: 42, User: 7, Arrival: coupon.Arrival(noon.UnixMicro()), Position: 12,
	SignedAt: noon.Unix()}

// secret returns base64 of 32 equal bytes.
func secret(of byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(of), 32)))
}

func fileOf(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "receipt-keys")
	write(t, path, lines...)
	return path
}

func write(t testing.TB, path string, lines ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

func keysOf(t testing.TB, lines ...string) *receipt.Keys {
	t.Helper()
	keys, err := receipt.Load(fileOf(t, lines...), clock)
	require.NoError(t, err)
	return keys
}

func sign(t testing.TB, keys *receipt.Keys, r receipt.Receipt) string {
	t.Helper()
	token, signed := keys.Append(nil, r)
	require.True(t, signed)
	return string(token)
}

// byLibrary signs claims with the library, with a header of any kind.
func byLibrary(t testing.TB, method jwt.SigningMethod, key any, header map[string]any, claims jwt.Claims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for name, value := range header {
		token.Header[name] = value
	}
	signed, err := token.SignedString(key)
	require.NoError(t, err)
	return signed
}

// The library makes the same tokens, and reads these.
func TestAppend_IsWhatTheLibrarySigns(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, "2026-11 "+secret('a'))
	rapid.Check(t, func(r *rapid.T) {
		is := receipt.Receipt{
			Coupon:   coupon.CouponID(rapid.Uint64Min(1).Draw(r, "coupon")),
			User:     coupon.UserID(rapid.Uint64Min(1).Draw(r, "user")),
			Arrival:  coupon.Arrival(rapid.Int64Range(1, int64(coupon.MaxArrival)).Draw(r, "arrival")),
			Position: rapid.Int64Min(1).Draw(r, "position"),
			SignedAt: rapid.Int64Range(1, math.MaxInt32).Draw(r, "iat"),
		}
		before := rapid.SampledFrom([]string{"", `{"receipt":"`}).Draw(r, "before")
		with, signed := keys.Append([]byte(before), is)
		require.True(r, signed)
		token := strings.TrimPrefix(string(with), before)
		require.LessOrEqual(r, len(token), receipt.MaxToken)
		require.Equal(r, byLibrary(t, jwt.SigningMethodHS256, []byte(strings.Repeat("a", 32)),
			map[string]any{"kid": "2026-11"}, ordered{is, nil}), token)
		got, err := keys.Check(token)
		require.NoError(r, err)
		require.Equal(r, is, got)
	})
}

// ordered are claims in the order of the struct.
type ordered struct {
	receipt.Receipt
	jwt.Claims `json:"-"`
}

func TestCheck_TellsFaultsApart(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, "new "+secret('n'), "old "+secret('o')+" 2026-11-20T12:00:00.9Z")
	bytes := []byte(strings.Repeat("n", 32))
	kid := map[string]any{"kid": "new"}
	right := ordered{one, nil}
	token := sign(t, keys, one)
	parts := strings.Split(token, ".")
	payload := func(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(json)) }
	old := func(iat int64) string {
		late := one
		late.SignedAt = iat
		return byLibrary(t, jwt.SigningMethodHS256, []byte(strings.Repeat("o", 32)), map[string]any{"kid": "old"},
			ordered{late, nil})
	}
	claimed := func(change jwt.MapClaims) string {
		claims := jwt.MapClaims{"coupon": 42, "user": 7, "arrival": 1795, "position": 1, "iat": 1795}
		for name, value := range change {
			claims[name] = value
		}
		return byLibrary(t, jwt.SigningMethodHS256, bytes, kid, claims)
	}
	for name, c := range map[string]struct {
		token string
		want  text.Message
	}{
		"another secret": {byLibrary(t, jwt.SigningMethodHS256, []byte("guessed"), kid, right),
			text.ReceiptForged},
		"an empty secret": {byLibrary(t, jwt.SigningMethodHS256, []byte{}, kid, right), text.ReceiptForged},
		"the other's secret": {byLibrary(t, jwt.SigningMethodHS256, bytes, map[string]any{"kid": "old"}, right),
			text.ReceiptForged},
		"another arrival": {parts[0] + "." + payload(`{"coupon":42,"user":7,"arrival":1,"position":12,"iat":1}`) +
			"." + parts[2], text.ReceiptForged},
		"no signature":     {parts[0] + "." + parts[1] + ".", text.ReceiptMalformed},
		"half a signature": {token[:len(token)-19], text.ReceiptMalformed},
		"a key of others": {byLibrary(t, jwt.SigningMethodHS256, bytes, map[string]any{"kid": "theirs"}, right),
			text.ReceiptForeignKey},
		"after its time": {old(noon.Unix() + 1), text.ReceiptExpiredKey},
		"no algorithm": {byLibrary(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, kid, right),
			text.ReceiptMalformed},
		"another algorithm": {byLibrary(t, jwt.SigningMethodHS512, bytes, kid, right), text.ReceiptMalformed},
		"unknown algorithm": {payload(`{"alg":"HS257","kid":"new"}`) + "." + parts[1] + "." + parts[2],
			text.ReceiptMalformed},
		"no key id": {byLibrary(t, jwt.SigningMethodHS256, bytes, nil, right), text.ReceiptMalformed},
		"key id is a number": {byLibrary(t, jwt.SigningMethodHS256, bytes, map[string]any{"kid": 1}, right),
			text.ReceiptMalformed},
		"key id with escapes": {byLibrary(t, jwt.SigningMethodHS256, bytes, map[string]any{"kid": "\x1b[2J"}, right),
			text.ReceiptMalformed},
		"no user":            {claimed(jwt.MapClaims{"user": nil}), text.ReceiptMalformed},
		"coupon 0":           {claimed(jwt.MapClaims{"coupon": 0}), text.ReceiptMalformed},
		"user is a text":     {claimed(jwt.MapClaims{"user": "7"}), text.ReceiptMalformed},
		"user below zero":    {claimed(jwt.MapClaims{"user": -7}), text.ReceiptMalformed},
		"half a position":    {claimed(jwt.MapClaims{"position": 1.5}), text.ReceiptMalformed},
		"no arrival":         {claimed(jwt.MapClaims{"arrival": 0}), text.ReceiptMalformed},
		"arrival too high":   {claimed(jwt.MapClaims{"arrival": int64(coupon.MaxArrival) + 1}), text.ReceiptMalformed},
		"no time":            {claimed(jwt.MapClaims{"iat": 0}), text.ReceiptMalformed},
		"cut off":            {parts[0] + "." + parts[1], text.ReceiptMalformed},
		"a line break":       {token[:len(token)-3] + "\n" + token[len(token)-3:], text.ReceiptMalformed},
		"nothing":            {"", text.ReceiptMalformed},
		"too long":           {strings.Repeat("a", 1000), text.ReceiptMalformed},
		"not signed by this": {"eyJhbGciOiJIUzI1NiJ9", text.ReceiptMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := keys.Check(c.token)
			require.True(t, text.Is(err, c.want), "%v", err)
			require.Zero(t, got)
			require.NotContains(t, err.Error(), parts[1])
		})
	}
	for name, right := range map[string]string{"the new key": token, "the old key in its time": old(noon.Unix()),
		"all claims": claimed(nil)} {
		_, err := keys.Check(right)
		require.NoError(t, err, name)
	}
}

// No change of a single character is taken for a receipt.
func TestCheck_RefusesEveryAlteredCharacter(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, "new "+secret('n'))
	token := sign(t, keys, one)
	for i := range token {
		for _, by := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=\n" {
			altered := token[:i] + string(by) + token[i+1:]
			if altered == token {
				continue
			}
			_, err := keys.Check(altered)
			require.Error(t, err, altered)
		}
	}
}

func FuzzCheck(f *testing.F) {
	keys := keysOf(f, "new "+secret('n'))
	f.Add(sign(f, keys, one))
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		got, err := keys.Check(token)
		if err == nil {
			require.Equal(t, sign(t, keys, got), token)
		}
	})
}

func TestKeys_Rotation(t *testing.T) {
	t.Parallel()
	path := fileOf(t, "1 "+secret('a'))
	keys, err := receipt.Load(path, clock)
	require.NoError(t, err)
	core, logs := observer.New(zap.InfoLevel)
	look := func() { keys.Look(zap.New(core)) }
	first := sign(t, keys, one)
	kid := func() string {
		parsed, _, err := jwt.NewParser().ParseUnverified(sign(t, keys, one), jwt.MapClaims{})
		require.NoError(t, err)
		return parsed.Header["kid"].(string)
	}

	write(t, path, "2 "+secret('b'), "1 "+secret('a')+" 2026-11-20T12:00:00Z")
	look()
	require.Equal(t, "1", kid(), "the file may still be written")
	look()
	require.Equal(t, "2", kid())
	_, err = keys.Check(first)
	require.NoError(t, err, "a receipt outlives its key's time")

	for _, broken := range []string{"3 " + secret('c')[:20], "3 " + secret('c') + " 2026-11-20T11:59:59Z",
		"# nothing yet"} {
		before := logs.Len()
		write(t, path, broken)
		look()
		look()
		require.Equal(t, "2", kid(), "the earlier keys stay")
		require.Equal(t, before+1, logs.Len(), "each problem is logged once")
	}
	require.NoError(t, os.Remove(path))
	look()
	require.Equal(t, "2", kid())
	write(t, path, "2 "+secret('b'))
	look()
	look()
	_, err = keys.Check(first)
	require.True(t, text.Is(err, text.ReceiptForeignKey), "%v", err)
	for _, entry := range logs.All() {
		require.NotContains(t, fmt.Sprint(entry.ContextMap()), secret('c')[:20])
	}
	require.Equal(t, "receipt keys read", logs.All()[logs.Len()-1].Message)
}

// If the time of the first key ends while the program runs, the next key signs. Without another, there are no receipts.
func TestAppend_KeyThatEnds(t *testing.T) {
	t.Parallel()
	end := " 2026-11-20T13:00:00Z"
	later := one
	later.SignedAt = noon.Add(time.Hour).Unix() + 1
	keys := keysOf(t, "1 "+secret('a')+end, "2 "+secret('b')+end, "3 "+secret('c'))
	header, _, _ := strings.Cut(sign(t, keys, later), ".")
	json, err := base64.RawURLEncoding.DecodeString(header)
	require.NoError(t, err)
	require.Equal(t, `{"alg":"HS256","kid":"3","typ":"JWT"}`, string(json))

	keys = keysOf(t, "1 "+secret('a')+end)
	sign(t, keys, one)
	with, signed := keys.Append([]byte("before"), later)
	require.False(t, signed)
	require.Equal(t, "before", string(with))
}

func TestLoad_WrongFilesAreRefused(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"1":                                          "line 1 is wrong",
		"\n1 " + secret('a')[:40]:                    "line 2 is wrong",
		"1 " + secret('a') + "!":                     "line 1 is wrong",
		"1 " + secret('a') + " tomorrow":             "line 1 is wrong",
		"1 " + secret('a') + " 2026-11-20":           "line 1 is wrong",
		"1 " + secret('a') + " x y":                  "line 1 is wrong",
		"k/1 " + secret('a'):                         "line 1 is wrong",
		strings.Repeat("k", 33) + " " + secret('a'):  "line 1 is wrong",
		"1 " + secret('a') + "\n1 " + secret('b'):    "lines 1 and 2",
		"# 1 " + secret('a'):                         "no key",
		"1 " + secret('a') + " 2026-11-20T11:59:59Z": "ended at 2026-11-20T11:59:59Z",
	} {
		_, err := receipt.Load(fileOf(t, content), clock)
		require.ErrorContains(t, err, want, content)
		require.ErrorContains(t, err, "RECEIPT_KEYS_FILE")
		require.NotContains(t, err.Error(), secret('a')[:20])
	}
	_, err := receipt.Load(filepath.Join(t.TempDir(), "missing"), clock)
	require.ErrorContains(t, err, "RECEIPT_KEYS_FILE cannot be read")
	_, err = receipt.LoadToCheck(fileOf(t, "1 "+secret('a')+" 2026-11-20T11:59:59Z"))
	require.NoError(t, err)
}

func TestLoad_BothAlphabets(t *testing.T) {
	t.Parallel()
	bytes := []byte(strings.Repeat("\xfb\xff", 16))
	token := byLibrary(t, jwt.SigningMethodHS256, bytes, map[string]any{"kid": "1"}, ordered{one, nil})
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding,
		base64.RawURLEncoding} {
		_, err := keysOf(t, "1 "+encoding.EncodeToString(bytes)).Check(token)
		require.NoError(t, err)
	}
}

// The document has a key, claims and their token. Any library must agree.
func TestDocument_HasARightVector(t *testing.T) {
	t.Parallel()
	document := testenv.Content(t, "../../docs/receipts.md")
	found := func(pattern string) string {
		match := regexp.MustCompile(pattern).FindSubmatch(document)
		require.NotNil(t, match, pattern)
		return string(match[1])
	}
	line, header, claims := found("(?m)^(example-1 .*)$"), found(`(?m)^(\{"alg".*\})$`), found(`(?m)^(\{"coupon".*\})$`)
	token := found(`(?m)^(ey[\w-]+\.[\w-]+\.[\w-]+)$`)

	bytes, err := base64.StdEncoding.DecodeString(strings.Fields(line)[1])
	require.NoError(t, err)
	parsed, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return bytes, nil },
		jwt.WithValidMethods([]string{"HS256"}))
	require.NoError(t, err)
	require.True(t, parsed.Valid)
	encode := base64.RawURLEncoding.EncodeToString
	require.Equal(t, encode([]byte(header))+"."+encode([]byte(claims)), token[:strings.LastIndex(token, ".")])

	keys := keysOf(t, line)
	got, err := keys.Check(token)
	require.NoError(t, err)
	require.Equal(t, token, sign(t, keys, got))
}
