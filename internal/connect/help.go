package connect

import (
	"bytes"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/text"
)

// HelpIn fills in the help of verbs, flags and arguments in a language. A field keeps its own tag unless the catalogue has its
// verb.
func HelpIn(l text.Language) kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		fillHelp(l, k.Model.Node)
		return nil
	})
}

func fillHelp(l text.Language, node *kong.Node) {
	verb := node.FullPath()
	if m, known := text.Help(verb, ""); known {
		node.Help = m.In(l)
	}
	node.Detail = text.Detail(verb, l)
	for _, flag := range node.Flags {
		fillValue(l, verb, "--"+flag.Name, flag.Value)
	}
	for _, argument := range node.Positional {
		fillValue(l, verb, "<"+argument.Name+">", argument)
	}
	for _, child := range node.Children {
		fillHelp(l, child)
	}
}

func fillValue(l text.Language, verb, name string, v *kong.Value) {
	if v.Help != "" && name != "--help" {
		return
	}
	if m, known := text.Help(verb, name); known {
		v.Help = m.In(l)
	}
}

func printHelp(l text.Language) kong.HelpPrinter {
	if l == text.English {
		return kong.DefaultHelpPrinter
	}
	var pairs []string
	for _, heading := range text.HelpHeadings {
		pairs = append(pairs, heading.In(text.English), heading.In(l))
	}
	headings := strings.NewReplacer(pairs...)
	return func(options kong.HelpOptions, ctx *kong.Context) error {
		var printed bytes.Buffer
		stdout := ctx.Stdout
		ctx.Stdout = &printed
		err := kong.DefaultHelpPrinter(options, ctx)
		ctx.Stdout = stdout
		if err == nil {
			_, err = headings.WriteString(stdout, printed.String())
		}
		return err
	}
}
