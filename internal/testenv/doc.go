// Package testenv gives tests, the demo and the benchmarks real servers: redis-server and mariadbd (or Oracle's
// mysqld). Each server that it starts is a private child process, see package process, which removes it even if this
// process is killed.
//
// # For tests
//
// [RedisFor] and [MySQLFor] give a test its own key prefix or database on servers that all tests of a process share;
// both are removed at the end of the test. [SchemaFor] gives a test a database with tables and accounts, which was
// emptied after another test; package migrated gives the one of `settle migrate`. [PrivateRedis] and [PrivateMySQL]
// start a server for one test, which may kill, restart, freeze and thaw it. TestMain of a package calls [Main], which
// stops the shared servers at the end. No test is skipped: a missing server is a failure that names the remedy.
//
// Packages below this one: topology starts several Redis servers that know each other, faultproxy injects faults
// between a program and a server, hostile has server defaults that break careless SQL, prometheus starts a Prometheus,
// openapi checks answers of the API, badinput checks how a program refuses bad flags.
//
// # Without a test
//
// [StartRedis], [StartMySQL], [BuildBinary] and [KeepBinary] need no testing.TB.
//
// # What survives a Kill
//
// A killed server has passed everything it acknowledged to the operating system: every commit of MySQL, and with
// [RedisOptions] AppendOnly every write to Redis. A Restart finds it again. Nothing is forced to the disk: a power cut
// may lose everything.
//
// # Environment
//
//   - TEST_REDIS_ADDRS: existing Redis servers for RedisFor, separated by commas; more than one is a Cluster. Only keys
//     with a test's prefix are touched.
//   - TEST_MYSQL_DSN: an existing server for MySQLFor and SchemaFor. The account must be allowed to create and drop
//     databases named jajeong_test_… and accounts named jajeong_…, to grant them rights there, and to see and end
//     sessions.
//   - TESTENV_MYSQLD: the mariadbd or mysqld program to start. Client programs beside it come first.
//
// Linux and macOS.
package testenv
