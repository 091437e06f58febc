#!lua flags=allow-oom
-- Puts people back whom a server took with it: those who were told that they stand in line, at their own arrival, and
-- those who asked and got no answer, at the end.
-- KEYS  1 queue  2 state  3 issued  4 rejected  5 dlq
-- ARGV  1 the epoch the pod knows  2, 3 accepted and twice as it has seen them  4 ttl (s)
--       5… user id, arrival (µs; 0 where the pod got no answer), …
-- Returns {code, epoch, now, accepted, twice, how many were put back of those who were told, how many were moved to their earlier arrival}
--   DONE
--   NO_WINDOW  nothing has happened: no catalog refresh has written this coupon's window yet
--   FINAL      nothing has happened: the coupon is over
-- Who is under review, holds the coupon, is rejected, or stands at that arrival or before it is left alone. Whoever has
-- applied again was counted by both servers: `twice` says how many were.
local queue, state, issued, rejected, dlq = unpack(KEYS)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local s = redis.call('HMGET', state, 'opens', 'closes', 'status', 'sold', 'last', 'final', unpack(EPOCH_FIELDS))
local opens, closes = tonumber(s[1]), tonumber(s[2])
if not opens or not closes then return {'NO_WINDOW', '', now, 0, 0, 0, 0} end
if s[6] then return {'FINAL', '', now, 0, 0, 0, 0} end

local promised = promises(now, {unpack(s, 7)}, {unpack(ARGV, 1, 3)}, {0, 0, 0})
if #promised.changes > 0 then redis.call('HSET', state, unpack(promised.changes)) end
local last, twice = tonumber(s[5]) or 0, promised.twice
local lets = s[3] == 'OPEN' and s[4] ~= '1' and now >= opens

local back, moved = 0, 0
for i = 5, #ARGV, 2 do
  local user, arrival = ARGV[i], tonumber(ARGV[i + 1])
  local stands = redis.call('ZSCORE', queue, user)
  stands = stands and tonumber(stands)
  local elsewhere = redis.call('ZSCORE', dlq, user) or redis.call('SISMEMBER', issued, user) == 1
    or redis.call('SISMEMBER', rejected, user) == 1
  if elsewhere then
    -- left alone
  elseif stands and arrival > 0 and stands > arrival then
    redis.call('ZADD', queue, 'XX', ARGV[i + 1], user)
    twice, moved = twice + 1, moved + 1
  elseif stands then
    if stands ~= arrival and stands >= promised.since then twice = twice + 1 end -- this server counted, too
  elseif arrival > 0 then
    redis.call('ZADD', queue, 'NX', ARGV[i + 1], user)
    last, back = math.max(last, arrival), back + 1
  elseif lets and math.max(now, last + 1) < closes then
    last = math.max(now, last + 1)
    redis.call('ZADD', queue, 'NX', string.format('%.0f', last), user)
  end
end
-- Nobody's count of those who got no answer is known. At the least, everybody who stands was accepted, and before this
-- epoch, since it counts its own.
local uncounted = math.max(redis.call('ZCARD', queue) + redis.call('ZCARD', dlq) + twice - promised.accepted, 0)
local accepted = promised.accepted + uncounted
redis.call('HSET', state, 'last', string.format('%.0f', last), 'twice', string.format('%.0f', twice),
  'accepted', string.format('%.0f', accepted), 'base', string.format('%.0f', promised.base + uncounted))
local expires = string.format('%.0f', math.floor(math.max(now, closes) / 1000000) + ARGV[4])
redis.call('EXPIREAT', queue, expires)
redis.call('EXPIREAT', state, expires)
return {'DONE', promised.epoch, now, accepted, twice, back, moved}
