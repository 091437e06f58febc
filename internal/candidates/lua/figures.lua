#!lua flags=no-writes
-- Everything that can be counted of one coupon, at one instant.
-- KEYS  1 queue  2 state  3 issued  4 rejected  5 dlq
-- ARGV  1 an arrival (µs)
-- Returns {now, accepted, last, waiting, dlq, issued, rejected, sold, highest arrival standing,
--          waiting behind that arrival, dlq behind it, twice, since}
local queue, state, issued, rejected, dlq = unpack(KEYS)
local time = redis.call('TIME')
local s = redis.call('HMGET', state, 'accepted', 'last', 'sold', 'twice', 'since')
local behind = string.format('%.0f', ARGV[1] + 1) -- arrivals are whole µs, whatever score was written by hand
local highest = 0
for _, key in ipairs({queue, dlq}) do
  local top = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  if top[2] then highest = math.max(highest, math.min(tonumber(top[2]), 9007199254740991)) end
end
return {time[1] * 1000000 + time[2], tonumber(s[1]) or 0, tonumber(s[2]) or 0,
  redis.call('ZCARD', queue), redis.call('ZCARD', dlq), redis.call('SCARD', issued), redis.call('SCARD', rejected),
  tonumber(s[3]) or 0, highest,
  redis.call('ZCOUNT', queue, behind, '+inf'), redis.call('ZCOUNT', dlq, behind, '+inf'),
  tonumber(s[4]) or 0, tonumber(s[5]) or 0}
