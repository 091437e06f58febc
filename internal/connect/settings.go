package connect

import (
	"net"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/text"
)

// serviceLink matches variables such as APPLY_API_PORT_8080_TCP, which Kubernetes sets in every pod for each service.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_.*)?)$`)

// siblings are settings of one program that the other one accepts: both often share a ConfigMap.
var siblings = []string{"APPLY_LISTEN", "APPLY_ADMIN_LISTEN", "SETTLE_SCHEDULE", "SETTLE_TIME_ZONE", "SETTLE_PARALLEL", "SETTLE_ADMIN_LISTEN"}

func unknownEnvironment(model *kong.Application, prefixes []string) (problems []error) {
	known := map[string]bool{}
	for _, env := range siblings {
		known[env] = true
	}
	_ = kong.Visit(model, func(node kong.Visitable, next kong.Next) error {
		switch n := node.(type) {
		case *kong.Flag:
			for _, env := range n.Envs {
				known[env] = true
			}
		}
		return next(nil)
	})
	for _, pair := range os.Environ() {
		env, _, _ := strings.Cut(pair, "=")
		for _, prefix := range prefixes {
			if strings.HasPrefix(env, prefix) && !known[env] && !serviceLink.MatchString(env) {
				problems = append(problems, text.UsageErrorf(text.UnknownSetting, env, strings.Join(withPrefix(known, prefix), ", ")))
			}
		}
	}
	return problems
}

func withPrefix(known map[string]bool, prefix string) (names []string) {
	for name := range known {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// CheckListen refuses an invalid listen address.
func CheckListen(name, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return text.UsageErrorf(text.WrongListen, name, address)
	}
	return nil
}

// secret is a value given directly or in a file.
func secret(name, value, file string) (string, error) {
	if file == "" {
		return value, nil
	}
	if value != "" {
		return "", text.UsageErrorf(text.SecretTwice, name)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", text.UsageErrorf(text.SecretUnreadable, name, err)
	}
	if value = strings.TrimRight(string(content), "\r\n"); value == "" {
		return "", text.UsageErrorf(text.SecretEmpty, name, file)
	}
	return value, nil
}
