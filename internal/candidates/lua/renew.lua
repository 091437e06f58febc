#!lua flags=allow-oom
-- Extends the TTL of a coupon's keys. The keys of the DLQ have no TTL.
-- ARGV  1 closes (µs)  2 ttl (s)
-- Returns how many of the five keys exist.
local expires = expiry(math.max(clock(), ARGV[1]), ARGV[2])
local renewed = 0
for _, key in ipairs({queue, state, issued, rejected, returned}) do
  renewed = renewed + redis.call('EXPIREAT', key, expires)
end
return renewed
