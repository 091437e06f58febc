#!lua flags=allow-oom
-- Closes the window, or pauses the coupon: no application is accepted after this. The caller has locked the coupon's row and
-- writes it afterwards. If that fails, the catalog publishes the old version again after three minutes.
-- ARGV  1 intended version of the row  2 CLOSED or PAUSED
-- Returns {version, end (µs)} for the row: a version not below the present one, and an instant above every arrival, but not
-- after the present end; {0, 0} without a window.
local now = clock()
local s = redis.call('HMGET', state, 'version', 'closes', 'last')
local version, closes = tonumber(s[1]), tonumber(s[2])
if not version or not closes then return {0, 0} end
version = math.max(version, tonumber(ARGV[1]))
closes = math.min(closes, math.max(now, (tonumber(s[3]) or 0) + 1)) -- arrivals may run ahead of this clock
redis.call('HSET', state, 'version', whole(version), 'version_at', whole(now))
if ARGV[2] == 'CLOSED' then
  redis.call('HSET', state, 'closes', whole(closes))
else
  redis.call('HSET', state, 'status', ARGV[2])
end
return {version, closes}
