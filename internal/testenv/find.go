package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// serverFolders hold servers without being on everybody's PATH: Debian, Fedora, MySQL's own
// packages, Homebrew on both kinds of Mac. scripts/setup.sh looks into the same.
var serverFolders = []string{
	"/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/bin", "/usr/local/mysql/bin",
	"/opt/homebrew/bin", "/opt/homebrew/opt/redis/bin", "/opt/homebrew/opt/mariadb/bin", "/opt/homebrew/opt/mysql/bin",
	"/usr/local/opt/redis/bin", "/usr/local/opt/mariadb/bin", "/usr/local/opt/mysql/bin",
}

// findProgram returns the path of the first of names that is on PATH or in serverFolders.
func findProgram(names ...string) (string, error) {
	return findProgramIn(nil, names...)
}

// findProgramIn looks into folders first.
func findProgramIn(folders []string, names ...string) (string, error) {
	folders = append(append(append([]string{}, folders...), filepath.SplitList(os.Getenv("PATH"))...), serverFolders...)
	for _, name := range names {
		for _, folder := range folders {
			if !filepath.IsAbs(folder) {
				continue // the tests' working folder is no place for servers
			}
			if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("no %s on PATH or in %s",
		strings.Join(names, " or "), strings.Join(serverFolders, ", "))
}
