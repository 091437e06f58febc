// Package users knows the table in which a shop keeps its users, which belongs to another team: what it is called, whether
// its shape can be read right, and who is active. Who is active is decided here alone, by one comparison in SQL:
//
//   - A status is compared byte by byte, whatever its column's collation. 'active' and 'ACTIVE ' are not ACTIVE.
//   - Everything that is not among the active values is inactive, and so is NULL.
//   - Without a status column, everybody who exists is active.
//
// A shape that cannot be read right is refused before anybody is judged: see Directory.Look.
package users
