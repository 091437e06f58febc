package httpapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"sync"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/ops"
)

// Front serves a handler of net/http on Connections. fasthttp reads the requests and writes the responses, because it needs
// a quarter less CPU time for them than net/http. The handlers are the same on both.
//
// A handler must not use a request, its header or the ResponseWriter after it has returned: the next request uses them
// again. It can neither hijack a connection nor write a part of a response early. A request has no context that ends when
// the client hangs up: a change on its way to a server is not withdrawn.
type Front struct {
	server      fasthttp.Server
	connections *Connections
}

// readAhead is how many bytes of a body are read before the handler is called. The handler reads the rest. 0 would be the
// default of fasthttp, 4 MB.
const readAhead = 1

// NewFront returns a Front. A request has the shorter one of the timeouts Header and Read, its response the timeout Write.
func NewFront(handler http.Handler, within ops.Timeouts, logger *zap.Logger) *Front {
	logger = logger.Named("http")
	log, _ := zap.NewStdLogAt(logger, zap.DebugLevel) // fails only for an unknown level; a line for each malformed request
	f := new(Front)
	f.server = fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			// A deadline for each response also sends it at once, even if a part of the next request has come.
			_ = ctx.SetWriteDeadline(ctx.Time().Add(within.Write))
			answer(handler, ctx, logger)
		},
		ErrorHandler:       refuseUnread,
		ReadTimeout:        min(within.Header, within.Read),
		IdleTimeout:        within.Idle,
		ReadBufferSize:     ops.MaxHeaderBytes,
		MaxRequestBodySize: readAhead,
		StreamRequestBody:  true,
		Logger:             log,

		CloseOnShutdown:               true,
		DisableHeaderNamesNormalizing: true, // newRequest does this as net/http does
		DisablePreParseMultipartForm:  true,
		NoDefaultContentType:          true,
		NoDefaultServerHeader:         true,
		SecureErrorLogMessage:         true,
	}
	return f
}

// Serve serves Connections until Shutdown.
func (f *Front) Serve(connections net.Listener) error {
	f.connections = connections.(*Connections)
	return f.server.Serve(connections)
}

// Shutdown closes the port and waits until every request is answered.
func (f *Front) Shutdown(ctx context.Context) error { return f.server.ShutdownWithContext(ctx) }

// Close closes every connection.
func (f *Front) Close() error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = f.Shutdown(now)
	f.connections.closeAll()
	return nil
}

// exchange is a request and its response.
type exchange struct {
	request  http.Request
	received http.Header // of the request
	header   http.Header // of the response
	status   int         // 0: not written yet
	response *fasthttp.Response
}

var exchanges = sync.Pool{New: func() any { return &exchange{received: http.Header{}, header: http.Header{}} }}

func answer(handler http.Handler, ctx *fasthttp.RequestCtx, logger *zap.Logger) {
	e := exchanges.Get().(*exchange)
	defer func() {
		if p := recover(); p != nil { // e may still be in use
			logger.Error("request panicked", zap.Any("panic", p), zap.Stack("stack"))
			refusePlainly(ctx, http.StatusInternalServerError)
			return
		}
		clear(e.received)
		clear(e.header)
		e.request, e.status, e.response = http.Request{}, 0, nil
		exchanges.Put(e)
	}()
	if version := string(ctx.Request.Header.Protocol()); version != "HTTP/1.1" && version != "HTTP/1.0" {
		refusePlainly(ctx, http.StatusHTTPVersionNotSupported)
		return
	}
	r, err := e.newRequest(ctx)
	if err != nil {
		refusePlainly(ctx, http.StatusBadRequest)
		return
	}
	e.response = &ctx.Response
	handler.ServeHTTP(e, r)
	e.WriteHeader(http.StatusOK)
}

// newRequest copies what the handler gets, because fasthttp uses its memory again.
func (e *exchange) newRequest(ctx *fasthttp.RequestCtx) (*http.Request, error) {
	target := string(ctx.RequestURI())
	at, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	for name, value := range ctx.Request.Header.All() {
		if key := textproto.CanonicalMIMEHeaderKey(string(name)); key != "Host" {
			e.received[key] = append(e.received[key], string(value))
		}
	}
	conn := ctx.Conn().(*connection)
	e.request = http.Request{
		Method: string(ctx.Method()), URL: at, RequestURI: target, Host: string(ctx.Host()), RemoteAddr: conn.remote,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: e.received, Body: http.NoBody,
	}
	if length := ctx.Request.Header.ContentLength(); length != 0 && ctx.RequestBodyStream() != nil {
		e.request.Body, e.request.ContentLength = io.NopCloser(ctx.RequestBodyStream()), int64(max(-1, length))
	}
	if conn.surplus {
		return e.request.WithContext(context.WithValue(context.Background(), surplusKey{}, true)), nil
	}
	return &e.request, nil
}

func (e *exchange) Header() http.Header { return e.header }

func (e *exchange) WriteHeader(status int) {
	if e.status != 0 {
		return
	}
	e.status = status
	e.response.SetStatusCode(status)
	for name, values := range e.header {
		for _, value := range values {
			e.response.Header.Add(name, value)
		}
	}
}

func (e *exchange) Write(body []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	e.response.AppendBody(body)
	return len(body), nil
}

// refuseUnread answers a request that could not be read. As with net/http, a slow client gets no answer.
func refuseUnread(ctx *fasthttp.RequestCtx, err error) {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		ctx.Conn().(*connection).asked = false
	}
	status := http.StatusBadRequest
	if _, tooLong := errors.AsType[*fasthttp.ErrSmallBuffer](err); tooLong {
		status = http.StatusRequestHeaderFieldsTooLarge
	}
	refusePlainly(ctx, status)
}

// refusePlainly answers a request that no handler answers, and closes its connection.
func refusePlainly(ctx *fasthttp.RequestCtx, status int) {
	ctx.Response.Reset()
	ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	ctx.Response.SetStatusCode(status)
	ctx.Response.SetBodyString(http.StatusText(status))
	ctx.Response.SetConnectionClose()
}
