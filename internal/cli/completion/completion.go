// Package completion completes the verbs and flags of settle in a shell.
package completion

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

type Command struct {
	Shell string `arg:"" enum:"bash,zsh,fish"`
}

// shellCodes make a shell call the program with COMP_LINE. %[1]s is the program's path.
var shellCodes = map[string]string{
	"bash": "complete -o default -o bashdefault -C %[1]s settle\n",
	"zsh": `autoload -U +X bashcompinit && bashcompinit
complete -o default -o bashdefault -C %[1]s settle
`,
	"fish": `function __complete_settle
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    %[1]s
end
complete -f -c settle -a "(__complete_settle)"
`,
}

// BeforeApply is called by kong. The verb needs no server, and so it leaves before kong validates the settings.
func (c *Command) BeforeApply(k *kong.Context) error {
	if _, err := k.Apply(); err != nil {
		return err
	}
	code, known := shellCodes[c.Shell]
	if !known {
		return nil // reported with the other problems of the command line
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(k.Stdout, code, path)
	k.Exit(0)
	return nil
}

// Answer prints the completions when a shell asks with COMP_LINE, and ends the process.
func Answer(k *kong.Kong) error {
	line, asked := os.LookupEnv("COMP_LINE")
	if !asked {
		return nil
	}
	if cursor, err := strconv.Atoi(os.Getenv("COMP_POINT")); err == nil && cursor >= 0 && cursor < len(line) {
		line = line[:cursor]
	}
	for _, word := range completions(k.Model.Node, line) {
		fmt.Fprintln(k.Stdout, word)
	}
	k.Exit(0)
	return nil
}

// completions are the verbs, flags and values that complete the last word of a line. After a space the last word is empty.
func completions(root *kong.Node, line string) (found []string) {
	words := strings.Fields(strings.ReplaceAll(line, "=", " ")) // --flag=value is --flag value
	last := ""
	if len(words) > 0 && !strings.HasSuffix(line, " ") && !strings.HasSuffix(line, "=") {
		last, words = words[len(words)-1], words[:len(words)-1]
	}
	node, arguments, value := root, 0, (*kong.Value)(nil) // value is that of a flag before the last word
	for _, word := range words[min(1, len(words)):] {
		child := childOf(node, word)
		switch {
		case value != nil:
			value = nil
		case strings.HasPrefix(word, "-"):
			value = valueOf(node, word)
		case child != nil:
			node = child
		default:
			arguments++
		}
	}
	offer := func(words ...string) {
		for _, word := range words {
			if word != "" && strings.HasPrefix(word, last) {
				found = append(found, word)
			}
		}
	}
	switch {
	case value != nil:
		offer(value.EnumSlice()...)
	case strings.HasPrefix(last, "-"):
		for _, flag := range slices.Concat(node.AllFlags(true)...) {
			offer("--" + flag.Name)
		}
	case arguments < len(node.Positional):
		offer(node.Positional[arguments].EnumSlice()...)
	default:
		for _, child := range node.Children {
			offer(child.Name)
		}
	}
	return found
}

func childOf(node *kong.Node, name string) *kong.Node {
	if at := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == name }); at >= 0 {
		return node.Children[at]
	}
	return nil
}

// valueOf is the value that a flag takes, or nil.
func valueOf(node *kong.Node, name string) *kong.Value {
	for _, flag := range slices.Concat(node.AllFlags(false)...) {
		if "--"+flag.Name == name && !flag.IsBool() {
			return flag.Value
		}
	}
	return nil
}
