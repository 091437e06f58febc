package cli

import (
	"context"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/text"
)

// openWriting connects a verb that writes to its servers, unless MySQL is set up to refuse every write.
func (p *program) openWriting(ctx context.Context) (*servers, error) {
	s, err := p.open()
	if err != nil {
		return nil, err
	}
	if connect.LogsStatements(ctx, s.MySQL) {
		s.Close()
		return nil, text.UsageErrorf(text.StatementsAreLogged)
	}
	return s, nil
}
