-- The catalog tells the door its window, and both sides learn what the other knows of promises.
-- KEYS  1 state
-- ARGV  1 version  2 opens (µs)  3 closes (µs)  4 status  5 accepted as MySQL has it  6 last floor (µs)  7 ttl (s)
--       8 sold, 1 when every seat has been given: told only to a door that has lost its
--         state; otherwise settlements say so
--       9 twice as MySQL has it  10 the epoch the pod knows  11, 12 accepted and twice as it has seen them
--       13 since when the epoch is that MySQL's counts are of (µs)
-- Returns {published, accepted, last, twice, now, epoch}; published is 0 when a newer version already stands there.
local state = KEYS[1]
local s = redis.call('HMGET', state, 'version', 'last', unpack(EPOCH_FIELDS))
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local published = 0
if (tonumber(s[1]) or 0) <= tonumber(ARGV[1]) then
  redis.call('HSET', state, 'version', ARGV[1], 'opens', ARGV[2], 'closes', ARGV[3], 'status', ARGV[4])
  if ARGV[8] == '1' and not s[1] then redis.call('HSET', state, 'sold', 1) end
  if tonumber(ARGV[3]) > now then redis.call('HDEL', state, 'final') end -- it was opened again
  published = 1
end
local promised = promises(now, {unpack(s, 3)}, {unpack(ARGV, 10, 12)}, {ARGV[13], ARGV[5], ARGV[9]})
if #promised.changes > 0 then redis.call('HSET', state, unpack(promised.changes)) end
local last = math.max(tonumber(s[2]) or 0, tonumber(ARGV[6]))
redis.call('HSET', state, 'accepted', string.format('%.0f', promised.accepted), 'last', string.format('%.0f', last))

local closes = math.floor(tonumber(redis.call('HGET', state, 'closes')) / 1000000)
redis.call('EXPIREAT', state, string.format('%.0f', math.max(time[1], closes) + ARGV[7]))
return {published, promised.accepted, last, promised.twice, now, promised.epoch}
