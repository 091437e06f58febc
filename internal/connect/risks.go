package connect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.uber.org/zap"
)

// noSecret is the struct tag of settings that name a file without a secret, such as public keys.
const noSecret = "nosecret"

// readableByOthers is the permission of every account of a machine to read a file.
const readableByOthers = 0o004

// unverified are the values of tls in a DSN that let anybody in the network pretend to be the server.
var unverified = []string{"skip-verify", "preferred"}

// WarnOfRisks writes to the log which settings let others read a secret. The programs that stay running call it at
// start.
func WarnOfRisks(kctx *kong.Context, servers *MySQLSettings, logger *zap.Logger) {
	for _, flag := range kctx.Flags() {
		if flag.Tag.Type != "path" || len(flag.Envs) == 0 || flag.Tag.Has(noSecret) {
			continue
		}
		path := flag.Target.String()
		if strings.HasSuffix(flag.Name, "-tls-dir") {
			path = filepath.Join(path, privateKeyFile)
		}
		if file, err := os.Stat(path); err == nil && file.Mode().Perm()&readableByOthers != 0 {
			logger.Warn("every account of this machine can read a file with a secret; take this right away (chmod o-r)",
				zap.String("setting", flag.Envs[0]))
		}
	}
	if config, err := servers.config(); err == nil && slices.Contains(unverified, config.TLSConfig) {
		logger.Warn(
			"MYSQL_DSN does not verify the certificate of MySQL: an attacker in the network can read and change "+
				"everything; use tls=true",
			zap.String("tls", config.TLSConfig))
	}
}
