// Package testenv gives tests and the demo real servers: redis-server and mariadbd (or Oracle's
// mysqld) as private child processes, each in a temporary folder and on a free port of 127.0.0.1.
//
// # For tests
//
// [RedisFor] and [MySQLFor] hand out a key prefix or a database of the test's own on servers that
// all tests of a process share; both are removed as the test ends. [PrivateRedis] and
// [PrivateMySQL] start a server for one test, which may kill, restart, freeze and thaw it. A
// package calls [Main] from its TestMain to stop the shared servers at the end. [PrivatePrometheus]
// and [PrivatePushgateway] are there for what is told about the programs, [Private] for a server of
// any other kind. No test is ever skipped: a missing server is a failure that says what to do.
//
// # Without a test
//
// [StartRedis], [StartMySQL], [Start] and [BuildBinary] need no testing.TB.
//
// # Down whatever happens
//
// Above each server stands a shell (supervise.sh) that reads from a pipe whose other end only this
// process holds. When the process ends, in whatever way, a SIGKILL or a panic included, the kernel
// closes the pipe; the shell then kills the server and removes its folder. Only a SIGKILL to the
// shell itself leaves a server behind.
//
// # What survives a Kill
//
// A killed server has given everything it acknowledged to the operating system: every commit of
// MySQL, and with [RedisOptions] AppendOnly every write to Redis. So [Redis.Restart] and
// [MySQL.Restart] find it again. Nothing is ever forced to the disk: a power cut may take it all.
//
// # Environment
//
//   - TEST_REDIS_ADDRS: existing Redis servers for RedisFor, separated by commas; several are a
//     Cluster. Only keys with a test's prefix are touched.
//   - TEST_MYSQL_DSN: an existing server for MySQLFor. The account must be allowed to create and
//     drop databases named jajeong_test_…, and for [Accounts] to make and drop accounts named
//     jajeong_… and give them rights there.
//   - TESTENV_MYSQLD: the mariadbd or mysqld program to start.
//
// Linux and macOS.
package testenv
