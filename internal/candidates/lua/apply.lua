-- One user asks for one coupon.
-- KEYS  1 queue  2 state  3 issued  4 rejected  5 dlq
-- ARGV  1 user id  2 highest arrival the pod has seen (µs)  3 highest count it has seen  4 ttl (s)
-- Returns {code, arrival, position, accepted, now, opens}; numbers that a code has no use for are 0.
--   ACCEPTED, DUPLICATE (arrival and position of the first time), UNDER_REVIEW (arrival)
--   ALREADY_ISSUED, REJECTED, SOLD_OUT, NOT_OPEN, CLOSED, PAUSED
--   NO_WINDOW  no catalog refresh has written this coupon's window yet
--   CLOCK      the line runs more than 5 s ahead of this clock: nothing is accepted until it has caught up
local queue, state, issued, rejected, dlq = unpack(KEYS)
local user = ARGV[1]
local MAX_AHEAD = 5000000 -- µs

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local s = redis.call('HMGET', state, 'opens', 'closes', 'status', 'sold', 'last', 'accepted')
local opens, closes = tonumber(s[1]), tonumber(s[2])

local function answer(code, arrival, position, accepted)
  return {code, arrival or 0, position or 0, accepted or 0, now, opens or 0}
end

if not opens or not closes then return answer('NO_WINDOW') end
if now < opens then return answer('NOT_OPEN') end
if now >= closes then return answer('CLOSED') end
if s[3] ~= 'OPEN' then return answer('PAUSED') end

local first = redis.call('ZSCORE', queue, user)
if first then
  return answer('DUPLICATE', tonumber(first), redis.call('ZRANK', queue, user) + 1)
end
first = redis.call('ZSCORE', dlq, user)
if first then return answer('UNDER_REVIEW', tonumber(first)) end
if redis.call('SISMEMBER', issued, user) == 1 then return answer('ALREADY_ISSUED') end
if redis.call('SISMEMBER', rejected, user) == 1 then return answer('REJECTED') end
if s[4] == '1' then return answer('SOLD_OUT') end

local last = math.max(tonumber(s[5]) or 0, tonumber(ARGV[2]))
if last > now + MAX_AHEAD then return answer('CLOCK') end
local arrival = math.max(now, last + 1)
local accepted = math.max(tonumber(s[6]) or 0, tonumber(ARGV[3])) + 1

redis.call('ZADD', queue, 'NX', string.format('%.0f', arrival), user)
redis.call('HSET', state, 'last', string.format('%.0f', arrival), 'accepted', string.format('%.0f', accepted))
local expires = string.format('%.0f', math.floor(math.max(now, closes) / 1000000) + ARGV[4])
redis.call('EXPIREAT', queue, expires)
redis.call('EXPIREAT', state, expires)
return answer('ACCEPTED', arrival, redis.call('ZRANK', queue, user) + 1, accepted)
