#!lua flags=no-writes
-- Everything that can be counted of one coupon, at one instant.
-- KEYS  1 queue  2 state  3 issued  4 rejected  5 dlq
-- ARGV  1 an arrival (µs)  2 how much time pods have to put back whom they remember (µs)
-- Returns {now, accepted, last, waiting, dlq, issued, rejected, sold, highest arrival standing,
--          waiting behind that arrival, dlq behind it, twice, since, µs that pods still have}
local queue, state, issued, rejected, dlq = unpack(KEYS)
local time = redis.call('TIME')
local s = redis.call('HMGET', state, 'accepted', 'last', 'sold', 'twice', 'since')
local now = time[1] * 1000000 + time[2]
local promised = promises(now, redis.call('HMGET', state, unpack(EPOCH_FIELDS)), {'', 0, 0}, {0, 0, 0})
local forPods = math.max(0, math.min(promised.since + ARGV[2] - now, tonumber(ARGV[2])))
local behind = string.format('%.0f', ARGV[1] + 1) -- arrivals are whole µs, whatever score was written by hand
local highest = 0
for _, key in ipairs({queue, dlq}) do
  local top = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  if top[2] then highest = math.max(highest, math.min(tonumber(top[2]), 9007199254740991)) end
end
return {now, tonumber(s[1]) or 0, tonumber(s[2]) or 0,
  redis.call('ZCARD', queue), redis.call('ZCARD', dlq), redis.call('SCARD', issued), redis.call('SCARD', rejected),
  tonumber(s[3]) or 0, highest,
  redis.call('ZCOUNT', queue, behind, '+inf'), redis.call('ZCOUNT', dlq, behind, '+inf'),
  tonumber(s[4]) or 0, tonumber(s[5]) or 0, forPods}
