// Command page serves a page on which people apply for a coupon, and is its gateway: it signs people in, tells
// apply-api who they are, and lets nobody else say so.
//
//	go run ./examples/page            http://localhost:8000/?coupon=1, with apply-api on this machine
//
// Anybody may sign in with any number: it is an example. A real gateway asks for a password there.
package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"flag"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

//go:embed index.html page.css page.js
var files embed.FS

// policy lets the page load its own files and nothing else: neither code nor styles in the document.
const policy = "default-src 'self'"

func main() {
	listen := flag.String("listen", "localhost:8000", "address of the page")
	api := flag.String("api", "http://localhost:8080", "APPLY_LISTEN of apply-api")
	live := flag.String("live", "http://localhost:8081", "LIVE_LISTEN of apply-api")
	flag.Parse()
	flag.VisitAll(func(f *flag.Flag) {
		if f.Value.String() == "" {
			log.Fatalf("-%s is empty: want %s, such as %s", f.Name, f.Usage, f.DefValue)
		}
	})
	log.Printf("http://%s/?coupon=1", *listen)
	server := &http.Server{Addr: *listen, Handler: newGateway(*api, *live), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func newGateway(api, live string) http.Handler {
	g := gateway{secret: []byte(rand.Text())}
	mux := http.NewServeMux()
	mux.Handle("/v1/", g.pass(api))
	mux.Handle("/v1/live/", g.pass(live))
	mux.HandleFunc("POST /sign-in", func(w http.ResponseWriter, r *http.Request) {
		user := r.FormValue("user")
		cookie := http.Cookie{Name: "session", Value: user + "." + g.sign(user), Path: "/", HttpOnly: true,
			SameSite: http.SameSiteLaxMode}
		http.SetCookie(w, &cookie)
		w.WriteHeader(http.StatusNoContent)
	})
	pages := http.FileServerFS(files)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		pages.ServeHTTP(w, r)
	})
	return mux
}

type gateway struct{ secret []byte }

func (g gateway) sign(user string) string {
	mac := hmac.New(sha256.New, g.secret)
	mac.Write([]byte(user))
	return hex.EncodeToString(mac.Sum(nil))
}

// pass passes requests on, with the user who has signed in, whatever X-User-ID the client has sent.
func (g gateway) pass(to string) http.Handler {
	target, err := url.Parse(to)
	if err != nil {
		log.Fatal(err)
	}
	return &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		p.Out.Header.Del("X-User-ID")
		if cookie, err := p.In.Cookie("session"); err == nil {
			user, signature, _ := strings.Cut(cookie.Value, ".")
			if hmac.Equal([]byte(signature), []byte(g.sign(user))) {
				p.Out.Header.Set("X-User-ID", user)
			}
		}
	}}
}
