package testenv

import "go.uber.org/goleak"

// ServerLeaks are goroutines of fasthttp that outlive a server: one ends within ten seconds, the other one keeps the date for
// all servers.
var ServerLeaks = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
	goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
}
