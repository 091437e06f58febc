package cli

import (
	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
)

// completionCmd prints what a shell needs to complete verbs and flags.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is shown by --help.
func (completionCmd) Help() string {
	return `Examples:
  source <(settle completion bash)                        for this session; in ~/.bashrc for every one
  source <(settle completion zsh)
  settle completion fish | source`
}

// AfterApply is called by kong. It needs no server, and so no settings: kong is told to leave before they are looked at.
func (c *completionCmd) AfterApply(k *kong.Context) error {
	if c.Shell == "" {
		return nil // a wrong one, which is told with whatever else is wrong
	}
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(k)
}

// answersShells lets the program answer a shell that asks what might come next; then the process ends.
func answersShells(k *kong.Kong) error {
	kongcompletion.Register(k)
	return nil
}
