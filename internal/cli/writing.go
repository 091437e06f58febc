package cli

import (
	"context"

	"github.com/jajeong/jajeong/internal/connect"
)

// logsStatements: InnoDB takes no writes at READ COMMITTED then, from anybody.
var logsStatements = words{
	"MySQL이 변경을 문장으로 기록하도록 설정되어(binlog_format=STATEMENT) 모든 쓰기를 거부합니다. 서버 설정에 binlog_format=ROW나 MIXED를 주거나, " +
		"이 계정에 BINLOG ADMIN(MariaDB)이나 SESSION_VARIABLES_ADMIN(MySQL) 권한을 주세요. 아무것도 바꾸지 않았습니다",
	"MySQL logs changes as statements (binlog_format=STATEMENT), and so refuses every write: set binlog_format=ROW or MIXED on the server, " +
		"or grant this account BINLOG ADMIN (MariaDB) or SESSION_VARIABLES_ADMIN (MySQL). Nothing was changed",
}

// openWriting connects a verb that writes to its servers, unless MySQL is set up to refuse every write.
func (p *program) openWriting(ctx context.Context) (*servers, error) {
	s, err := p.open()
	if err != nil {
		return nil, err
	}
	if connect.LogsStatements(ctx, s.MySQL) {
		s.Close()
		return nil, wrong(logsStatements)
	}
	return s, nil
}
