package cli

import "github.com/jajeong/jajeong/internal/settle"

// settler is what the verbs wire, for tests that replace a part of it.
func (w *world) settler() *settle.Settler { return w.d().Settler() }
