#!lua flags=allow-oom
-- The catalog tells the door its window, and both sides learn what the other knows of promises. What stands there already
-- is not written again, so that an idle refresh costs neither a replica nor the append-only file anything.
-- KEYS  1 state
-- ARGV  1 version  2 opens (µs)  3 closes (µs)  4 status  5 accepted as MySQL has it
--       6 highest arrival that MySQL or the pod knows (µs)  7 ttl (s)
--       8 sold, 1 when every seat has been given: told only to a door that has lost its
--         state; otherwise settlements say so
--       9 twice as MySQL has it  10 the epoch the pod knows  11, 12 accepted and twice as it has seen them
--       13 since when the epoch is that MySQL's counts are of (µs)
-- Returns {published, accepted, last, twice, now, epoch}; published is 0 when a newer version has come to the door within
-- the last three minutes. No refresh reads a window and tells it as late as that, and no COMMIT under way lasts as long: an
-- older version that still comes is what MySQL has.
local state = KEYS[1]
local KEPT, HOUR = 180 * 1000000, 3600 -- µs, s
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local s = redis.call('HMGET', state, 'version', 'last', 'opens', 'closes', 'status', 'version_at', unpack(EPOCH_FIELDS))
local published, changed, closes = 0, false, s[4]
if (tonumber(s[1]) or 0) <= tonumber(ARGV[1]) or math.abs(now - (tonumber(s[6]) or 0)) >= KEPT then
  changed = s[1] ~= ARGV[1] or s[3] ~= ARGV[2] or s[4] ~= ARGV[3] or s[5] ~= ARGV[4]
  if changed then
    redis.call('HSET', state, 'version', ARGV[1], 'opens', ARGV[2], 'closes', ARGV[3], 'status', ARGV[4],
      'version_at', string.format('%.0f', now))
    if tonumber(ARGV[3]) > now then redis.call('HDEL', state, 'final') end -- it was opened again
  end
  if ARGV[8] == '1' and not s[1] then redis.call('HSET', state, 'sold', 1) end
  published, closes = 1, ARGV[3]
end
local promised = promises(now, {unpack(s, 7)}, {unpack(ARGV, 10, 12)}, {ARGV[13], ARGV[5], ARGV[9]})
local changes = promised.changes
local last = math.max(tonumber(s[2]) or 0, tonumber(ARGV[6]))
if tonumber(s[2]) ~= last then changes[#changes + 1], changes[#changes + 2] = 'last', string.format('%.0f', last) end
if not s[9] then changes[#changes + 1], changes[#changes + 2] = 'accepted', string.format('%.0f', promised.accepted) end
if #changes > 0 then redis.call('HSET', state, unpack(changes)) end

local expires = math.max(time[1], math.floor(tonumber(closes) / 1000000)) + ARGV[7]
if changed or math.abs(expires - redis.call('EXPIRETIME', state)) >= HOUR then
  redis.call('EXPIREAT', state, string.format('%.0f', expires))
end
return {published, promised.accepted, last, promised.twice, now, promised.epoch}
