// Package users reads the users of the shop, whose table belongs to another team: its name, whether its columns are usable, and
// which users are active. One comparison in SQL decides which users are active:
//
//   - A status is compared byte by byte, whatever the collation of its column is. 'active' and 'ACTIVE ' are not ACTIVE.
//   - Every value that is not an active value is inactive, and so is NULL.
//   - Without a status column, every user in the table is active.
//
// An unusable table is refused before any user is judged: see Directory.Look.
package users
