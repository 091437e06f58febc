#!lua flags=allow-oom
-- Extends the TTL of a due coupon's keys. The DLQ has none.
-- KEYS  1 queue  2 state  3 issued  4 rejected
-- ARGV  1 closes (µs)  2 ttl (s)
-- Returns how many of the keys exist.
local now = redis.call('TIME')[1]
local expires = string.format('%.0f', math.max(now, math.floor(ARGV[1] / 1000000)) + ARGV[2])
local renewed = 0
for _, key in ipairs(KEYS) do renewed = renewed + redis.call('EXPIREAT', key, expires) end
return renewed
