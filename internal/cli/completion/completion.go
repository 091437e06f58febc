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

// shellCodes make a shell run the program at the path %[1]s with the typed line in COMP_LINE.
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

// BeforeApply prints the script and exits. kong calls it before it checks the settings, which this verb does not need.
func (c *Command) BeforeApply(k *kong.Context) error {
	if _, err := k.Apply(); err != nil {
		return err
	}
	code, known := shellCodes[c.Shell]
	if !known {
		return nil // kong reports the unknown shell with the other problems
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(k.Stdout, code, path)
	k.Exit(0)
	return nil
}

// Answer prints the completions and ends the process if a shell has set COMP_LINE. Otherwise it does nothing.
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

// completions returns the verbs, flags and values that begin with the last word of the line, which may be empty.
func completions(root *kong.Node, line string) (found []string) {
	words := strings.Fields(strings.ReplaceAll(line, "=", " ")) // read --flag=value as --flag value
	last := ""
	if len(words) > 0 && !strings.HasSuffix(line, " ") && !strings.HasSuffix(line, "=") {
		last, words = words[len(words)-1], words[:len(words)-1]
	}
	node, arguments, value := root, 0, (*kong.Value)(nil) // value is not nil while the next word is the value of a flag
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
			if !child.Hidden {
				offer(child.Name)
			}
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

// valueOf returns the value that a flag takes; nil if the flag takes none or is unknown.
func valueOf(node *kong.Node, name string) *kong.Value {
	for _, flag := range slices.Concat(node.AllFlags(false)...) {
		if "--"+flag.Name == name && !flag.IsBool() {
			return flag.Value
		}
	}
	return nil
}
