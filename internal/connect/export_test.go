package connect

// For tests, which compare them with the variables of the server.
const (
	MySQLIOTimeout = mysqlIOTimeout
	MySQLIdleTime  = mysqlIdleTime
)

// For tests of the forced variables.
var (
	Prove      = prove
	ProvingSQL = provingSQL
)

// ForcedVariables are the forced variables with their values, on MariaDB or MySQL.
func ForcedVariables(onMariaDB bool) map[string]string {
	all := map[string]string{}
	for _, v := range sessionVariables {
		if v.on == both || (v.on == mariadb) == onMariaDB {
			all[v.name] = v.want
		}
	}
	return all
}
