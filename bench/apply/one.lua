-- Accepts one application, like the script of the API, which accepts many.
-- KEYS  1 queue  2 state  3 issued  4 rejected  5 dlq
-- ARGV  1 user id  2 ttl (s)
-- Returns {code, arrival, position}
local queue, state, issued, rejected, dlq = unpack(KEYS)
local user = ARGV[1]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local s = redis.call('HMGET', state, 'opens', 'closes', 'status', 'sold', 'last', 'accepted')
local opens, closes = tonumber(s[1]), tonumber(s[2])

if not opens or not closes then return {'NO_WINDOW', 0, 0} end
if now < opens then return {'NOT_OPEN', 0, 0} end
if now >= closes then return {'CLOSED', 0, 0} end
if s[3] ~= 'OPEN' then return {'PAUSED', 0, 0} end

local standing = redis.call('ZSCORE', queue, user)
if standing then return {'DUPLICATE', tonumber(standing), redis.call('ZRANK', queue, user) + 1} end
local reviewed = redis.call('ZSCORE', dlq, user)
if reviewed then return {'UNDER_REVIEW', tonumber(reviewed), 0} end
if redis.call('ZSCORE', issued, user) then return {'ALREADY_ISSUED', 0, 0} end
if redis.call('SISMEMBER', rejected, user) == 1 then return {'REJECTED', 0, 0} end
if s[4] == '1' then return {'SOLD_OUT', 0, 0} end

local arrival = math.max(now, (tonumber(s[5]) or 0) + 1)
local accepted = (tonumber(s[6]) or 0) + 1
local text = string.format('%.0f', arrival)
redis.call('ZADD', queue, 'NX', text, user)
redis.call('HSET', state, 'last', text, 'accepted', string.format('%.0f', accepted))
local expires = string.format('%.0f', math.floor(math.max(now, closes) / 1000000) + ARGV[2])
redis.call('EXPIREAT', queue, expires)
redis.call('EXPIREAT', state, expires)
return {'ACCEPTED', arrival, redis.call('ZRANK', queue, user) + 1}
