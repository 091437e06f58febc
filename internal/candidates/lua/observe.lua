#!lua flags=no-writes
-- Looks at a coupon as look.lua does, but only reads.
-- ARGV  1 an arrival (µs): entries above it are counted separately
-- Returns what line.lua says. If the server is new to the coupon, since is 0 and epoch ''.
local now = clock()
local s = redis.call('HMGET', state, unpack(LINE_FIELDS))
local epoch, since = current(now, {unpack(s, 9)})
if not epoch then return line(now, '', 0, false, s, ARGV[1]) end
return line(now, epoch, since, tonumber(s[12]) == since, s, ARGV[1])
