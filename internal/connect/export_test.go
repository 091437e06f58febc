package connect

// For tests, which compare them with what the server says.
const (
	MySQLIOTimeout = mysqlIOTimeout
	MySQLIdleTime  = mysqlIdleTime
)

// For tests of what is forced.
var (
	Prove      = prove
	ProvingSQL = provingSQL
)

// ForcedVariables are the names of all that is forced, with what they must be, on MariaDB or MySQL.
func ForcedVariables(onMariaDB bool) map[string]string {
	all := map[string]string{}
	for _, v := range sessionVariables {
		if on := orBoth(v.on); on == both || (on == mariadb) == onMariaDB {
			all[v.name] = v.want
		}
	}
	return all
}
