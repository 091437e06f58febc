#!lua flags=allow-oom
-- Writes a coupon's window, and exchanges the counts of accepted applications with the caller. Unchanged values are not
-- written: a refresh that changes nothing causes no work for replicas and the append-only file.
-- ARGV  1 version  2 opens (µs)  3 closes (µs)  4 status  5 accepted in MySQL
--       6 highest arrival that MySQL or the process knows (µs)  7 ttl (s)
--       8 sold (1: every seat is taken); it is used only if the state is lost, since otherwise settlements write it
--       9 twice in MySQL  10 epoch that the process knows
--       11, 12 accepted and twice as the process has seen them in that epoch
--       13 start of the epoch in which MySQL's counts were seen (µs)  14 line limit (0: none)
-- Returns {published, accepted, last, twice, now, waiting, sold, {epoch}}. published is 0 if a newer version was written
-- in the last three minutes, else 1. No refresh or COMMIT takes that long: an older version that comes later is the one
-- in MySQL. waiting is the length of the queue; sold is 1 if apply answers SOLD_OUT, else 0.
local KEPT, HOUR = 180 * 1000000, 3600 -- KEPT in µs, HOUR in s
local now = clock()
local s = redis.call('HMGET', state, 'version', 'last', 'opens', 'closes', 'status', 'version_at', 'line_limit',
  'sold', unpack(EPOCH_FIELDS))
local published, changed, closes = 0, false, s[4]
if (tonumber(s[1]) or 0) <= tonumber(ARGV[1]) or math.abs(now - (tonumber(s[6]) or 0)) >= KEPT then
  changed = s[1] ~= ARGV[1] or s[3] ~= ARGV[2] or s[4] ~= ARGV[3] or s[5] ~= ARGV[4]
    or (s[7] or '0') ~= ARGV[14]
  if changed then
    redis.call('HSET', state, 'version', ARGV[1], 'opens', ARGV[2], 'closes', ARGV[3], 'status', ARGV[4],
      'version_at', whole(now))
    if ARGV[14] == '0' then redis.call('HDEL', state, 'line_limit') else redis.call('HSET', state, 'line_limit', ARGV[14]) end
    if tonumber(ARGV[3]) > now then redis.call('HDEL', state, 'final') end -- the coupon was reopened
  end
  if ARGV[8] == '1' and not s[1] then
    redis.call('HSET', state, 'sold', 1)
    s[8] = '1'
  end
  published, closes = 1, ARGV[3]
end
local promised = promises(now, {unpack(s, 9)}, {unpack(ARGV, 10, 12)}, {ARGV[13], ARGV[5], ARGV[9]})
local changes = promised.changes
local last = math.max(tonumber(s[2]) or 0, tonumber(ARGV[6]))
if tonumber(s[2]) ~= last then changes[#changes + 1], changes[#changes + 2] = 'last', whole(last) end
if not s[11] then changes[#changes + 1], changes[#changes + 2] = 'accepted', whole(promised.accepted) end
if #changes > 0 then redis.call('HSET', state, unpack(changes)) end

local expires = expiry(math.max(now, closes), ARGV[7])
if changed or math.abs(expires - redis.call('EXPIRETIME', state)) >= HOUR then
  redis.call('EXPIREAT', state, expires)
end
return {published, promised.accepted, last, promised.twice, now, redis.call('ZCARD', queue), tonumber(s[8]) or 0, {promised.epoch}}
