#!lua flags=allow-oom
-- Writes a coupon's window, and begins an epoch if the server is new to the coupon. Unchanged values are not written: a
-- refresh that changes nothing causes no work for replicas and the append-only file.
-- ARGV  1 version  2 opens (µs)  3 closes (µs)  4 status  5 highest arrival that MySQL or the process knows (µs)
--       6 ttl (s)  7 sold (1: every seat is taken); it is used only if the state is lost, since otherwise settlements
--       write it  8 line limit (0: none)
-- Returns {published, now, waiting, sold, since, restored, restores, accepted, last, {epoch}}. published is 0 if a newer
-- version was written in the last three minutes, else 1. No refresh or COMMIT takes that long: an older version that
-- comes later is the one in MySQL. waiting is the length of the queue; sold is 1 if apply answers SOLD_OUT; restored is
-- 1 if the server was compared with the journal; last is the highest arrival ever given.
local KEPT, HOUR = 180 * 1000000, 3600 -- KEPT in µs, HOUR in s
local now = clock()
local s = redis.call('HMGET', state, 'version', 'last', 'opens', 'closes', 'status', 'version_at', 'line_limit',
  'sold', 'restores', unpack(EPOCH_FIELDS))
local epoch, since, restored = begin(now, {unpack(s, 10)}, tonumber(ARGV[5]), tonumber(ARGV[2]), ARGV[6])
local published, changed, closes = 0, false, s[4]
if (tonumber(s[1]) or 0) <= tonumber(ARGV[1]) or math.abs(now - (tonumber(s[6]) or 0)) >= KEPT then
  changed = s[1] ~= ARGV[1] or s[3] ~= ARGV[2] or s[4] ~= ARGV[3] or s[5] ~= ARGV[4]
    or (s[7] or '0') ~= ARGV[8]
  if changed then
    redis.call('HSET', state, 'version', ARGV[1], 'opens', ARGV[2], 'closes', ARGV[3], 'status', ARGV[4],
      'version_at', whole(now))
    if ARGV[8] == '0' then
      redis.call('HDEL', state, 'line_limit')
    else
      redis.call('HSET', state, 'line_limit', ARGV[8])
    end
    if tonumber(ARGV[3]) > now then redis.call('HDEL', state, 'final') end -- the coupon was reopened
  end
  if ARGV[7] == '1' and not s[1] then
    redis.call('HSET', state, 'sold', 1)
    s[8] = '1'
  end
  published, closes = 1, ARGV[3]
end
local last, seen = tonumber(s[2]) or 0, tonumber(ARGV[5])
if last < seen then
  last = seen
  redis.call('HSET', state, 'last', ARGV[5])
end

local expires = expiry(math.max(now, closes), ARGV[6])
if changed or math.abs(expires - redis.call('EXPIRETIME', state)) >= HOUR then
  redis.call('EXPIREAT', state, expires)
end
return {published, now, redis.call('ZCARD', queue), tonumber(s[8]) or 0, since, restored and 1 or 0,
  tonumber(s[9]) or 0, countOf(s[14]), last, {epoch}}
