package connect

// For tests, which compare them with what the server says.
const (
	MySQLIOTimeout = mysqlIOTimeout
	MySQLIdleTime  = mysqlIdleTime
)
