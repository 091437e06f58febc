#!lua flags=allow-oom
-- Lets a settlement begin: once this clock has passed the cutoff, no later application can arrive below it.
-- KEYS  1 state
-- ARGV  1 cutoff (µs)  2 ttl (s), for a state that nobody has written yet
-- Returns the µs still to wait; 0 when the fence stands.
local state, cutoff = KEYS[1], tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now < cutoff then return cutoff - now end
local last = tonumber(redis.call('HGET', state, 'last')) or 0
if last < cutoff - 1 then
  redis.call('HSET', state, 'last', string.format('%.0f', cutoff - 1))
  if redis.call('TTL', state) == -1 then redis.call('EXPIRE', state, ARGV[2]) end
end
return 0
