#!lua flags=no-writes
-- Counts everything of a coupon, at one instant. A read.
-- ARGV  1 an arrival (µs)  2 time for putting applications back after a change of the server (µs)
-- Returns {now, accepted, last, waiting, dlq, issued, rejected, sold, highest arrival in queue and dlq,
--          waiting above the given arrival, dlq above it, twice, since, µs left for putting back}
local now = clock()
local s = redis.call('HMGET', state, 'accepted', 'last', 'sold', 'twice', 'since')
local promised = promises(now, redis.call('HMGET', state, unpack(EPOCH_FIELDS)), {'', 0, 0}, {0, 0, 0})
local putBackWait = math.max(0, math.min(promised.since + ARGV[2] - now, tonumber(ARGV[2])))
local above = whole(ARGV[1] + 1) -- arrivals are whole µs, also if a score was written by hand
local function highest(key) return arrivalOf(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]) or 0 end
return {now, tonumber(s[1]) or 0, tonumber(s[2]) or 0,
  redis.call('ZCARD', queue), redis.call('ZCARD', dlq), redis.call('SCARD', issued), redis.call('SCARD', rejected),
  tonumber(s[3]) or 0, math.max(highest(queue), highest(dlq)),
  redis.call('ZCOUNT', queue, above, '+inf'), redis.call('ZCOUNT', dlq, above, '+inf'),
  tonumber(s[4]) or 0, tonumber(s[5]) or 0, putBackWait}
