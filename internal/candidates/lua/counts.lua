#!lua flags=no-writes
-- Returns all counts of a coupon. It only reads.
-- ARGV  1 an arrival (µs); entries above it are counted separately
--       2 time for putting applications back after the server changed (µs)
-- Returns {now, accepted, last, waiting, dlq, issued, rejected, sold, highest arrival in queue and dlq,
--          waiting above the given arrival, dlq above the given arrival, twice, since, µs left for putting back, changes of the dlq,
--          base, restored, missing}
local now = clock()
local s = redis.call('HMGET', state, 'accepted', 'last', 'sold', 'twice', 'since', 'dlqs', 'base', 'restored', 'missing')
local promised = promises(now, redis.call('HMGET', state, unpack(EPOCH_FIELDS)), {'', 0, 0}, {0, 0, 0})
local putBackWait = math.max(0, math.min(promised.since + ARGV[2] - now, tonumber(ARGV[2])))
local above = whole(ARGV[1] + 1) -- a fractional score written by hand counts as rounded down
local function highest(key) return arrivalOf(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]) or 0 end
return {now, tonumber(s[1]) or 0, tonumber(s[2]) or 0,
  redis.call('ZCARD', queue), redis.call('ZCARD', dlq), redis.call('SCARD', issued), redis.call('SCARD', rejected),
  tonumber(s[3]) or 0, math.max(highest(queue), highest(dlq)),
  redis.call('ZCOUNT', queue, above, '+inf'), redis.call('ZCOUNT', dlq, above, '+inf'),
  tonumber(s[4]) or 0, tonumber(s[5]) or 0, putBackWait, tonumber(s[6]) or 0,
  tonumber(s[7]) or 0, tonumber(s[8]) or 0, tonumber(s[9]) or 0}
