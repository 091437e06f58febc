#!lua flags=no-writes
-- Counts everything of a coupon, at one instant. A read.
-- KEYS  1 queue  2 state  3 issued  4 rejected  5 dlq
-- ARGV  1 an arrival (µs)  2 time for putting applications back after a change of the server (µs)
-- Returns {now, accepted, last, waiting, dlq, issued, rejected, sold, highest arrival in queue and dlq,
--          waiting above the given arrival, dlq above it, twice, since, µs left for putting back}
local queue, state, issued, rejected, dlq = unpack(KEYS)
local time = redis.call('TIME')
local s = redis.call('HMGET', state, 'accepted', 'last', 'sold', 'twice', 'since')
local now = time[1] * 1000000 + time[2]
local promised = promises(now, redis.call('HMGET', state, unpack(EPOCH_FIELDS)), {'', 0, 0}, {0, 0, 0})
local putBackWait = math.max(0, math.min(promised.since + ARGV[2] - now, tonumber(ARGV[2])))
local above = string.format('%.0f', ARGV[1] + 1) -- arrivals are whole µs, also if a score was written by hand
local highest = 0
for _, key in ipairs({queue, dlq}) do
  local top = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  if top[2] then highest = math.max(highest, math.min(tonumber(top[2]), 9007199254740991)) end
end
return {now, tonumber(s[1]) or 0, tonumber(s[2]) or 0,
  redis.call('ZCARD', queue), redis.call('ZCARD', dlq), redis.call('SCARD', issued), redis.call('SCARD', rejected),
  tonumber(s[3]) or 0, highest,
  redis.call('ZCOUNT', queue, above, '+inf'), redis.call('ZCOUNT', dlq, above, '+inf'),
  tonumber(s[4]) or 0, tonumber(s[5]) or 0, putBackWait}
