#!lua flags=allow-oom
-- Closes the window or pauses the coupon: no application is accepted afterwards. The caller has locked the coupon's
-- row, and then writes it. If the row is not written, the catalog publishes the old version again after three minutes.
-- ARGV  1 lowest version that the row may get  2 CLOSED or PAUSED
-- Returns {version, end (µs)} for the row, or {0, 0} if Redis has no window. The version is not below the published
-- one. The end is above every arrival, but not after the published end.
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
