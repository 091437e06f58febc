#!lua flags=allow-oom
-- Shuts the door in the name of whoever has locked the coupon's row: nobody is accepted after this. The row is written
-- afterwards. Where that fails, a catalog that still reads the version before opens the door again after three minutes.
-- KEYS  1 state
-- ARGV  1 version that the row is to have  2 CLOSED to end the window now, or PAUSED
-- Returns {version, end (µs)}: the version to write, not lower than the door's, and an instant that lies behind every
-- arrival, but not behind the end that the door had; {0, 0} and nothing done where the door knows no window.
local state = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local s = redis.call('HMGET', state, 'version', 'closes', 'last')
local version, closes = tonumber(s[1]), tonumber(s[2])
if not version or not closes then return {0, 0} end
version = math.max(version, tonumber(ARGV[1]))
closes = math.min(closes, math.max(now, (tonumber(s[3]) or 0) + 1)) -- arrivals may run ahead of this clock
redis.call('HSET', state, 'version', string.format('%.0f', version), 'version_at', string.format('%.0f', now))
if ARGV[2] == 'CLOSED' then
  redis.call('HSET', state, 'closes', string.format('%.0f', closes))
else
  redis.call('HSET', state, 'status', ARGV[2])
end
return {version, closes}
