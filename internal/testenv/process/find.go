package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// serverFolders are folders with servers that are often not on PATH: Debian, Fedora, MySQL's own packages, Homebrew on
// both kinds of Mac. scripts/setup.sh has the same list.
var serverFolders = []string{
	"/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/bin", "/usr/local/mysql/bin",
	"/opt/homebrew/bin", "/opt/homebrew/opt/redis/bin", "/opt/homebrew/opt/mariadb/bin", "/opt/homebrew/opt/mysql/bin",
	"/usr/local/opt/redis/bin", "/usr/local/opt/mariadb/bin", "/usr/local/opt/mysql/bin",
}

// Find returns the path of the first of names that is on PATH or in serverFolders.
func Find(names ...string) (string, error) {
	return FindIn(nil, names...)
}

// FindIn looks into folders first, then as Find does.
func FindIn(folders []string, names ...string) (string, error) {
	folders = append(append(append([]string{}, folders...), filepath.SplitList(os.Getenv("PATH"))...), serverFolders...)
	for _, name := range names {
		for _, folder := range folders {
			if !filepath.IsAbs(folder) {
				continue // never a program from a test's working folder
			}
			if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("no %s on PATH or in %s",
		strings.Join(names, " or "), strings.Join(serverFolders, ", "))
}
