#!lua flags=allow-oom
-- Enters again those whom Redis has lost: at their arrival. Who stands at a later one moves forward.
-- ARGV  1 epoch of the restore  2 ttl (s)  3… user, arrival (µs), by hand, …
--       by hand is 1 if MySQL has a coupon that was given by hand: its mark stays
-- Returns {number entered, number moved, {epoch}}. If another epoch has begun, nothing changes; epoch is ''
-- if the server is new to the coupon.
local now = clock()
local s = redis.call('HMGET', state, 'closes', 'last', 'forward', unpack(EPOCH_FIELDS))
local fields = {unpack(s, 4)}
local epoch, since = current(now, fields)
if epoch ~= ARGV[1] then return {0, 0, {epoch or ''}} end
local last, entered, moved, reviewMoved = tonumber(s[2]) or 0, 0, 0, false
for i = 3, #ARGV, 3 do
  local user, arrival, byHand = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2] == '1'
  local queued, reviewed = arrivalOf(redis.call('ZSCORE', queue, user)), arrivalOf(redis.call('ZSCORE', dlq, user))
  if not reviewed then redis.call('HDEL', reasons, user) end -- of a DLQ entry that is lost
  if not queued and not reviewed then
    redis.call('ZADD', queue, 'NX', ARGV[i + 1], user)
    if not byHand then redis.call('ZREM', issued, user) end
    redis.call('SREM', rejected, user)
    last, entered = math.max(last, arrival), entered + 1
  elseif math.min(queued or math.huge, reviewed or math.huge) > arrival then
    redis.call('ZADD', queued and queue or dlq, 'XX', ARGV[i + 1], user)
    moved, reviewMoved = moved + 1, reviewMoved or not queued
  end
end
if reviewMoved then dlqChanged() end
-- Who moves has applied again. A server that is not restored yet has counted them once; any other has counted them twice.
if moved > 0 and tonumber(fields[4]) == since then
  redis.call('HSET', state, 'forward', whole((tonumber(s[3]) or 0) + moved))
end
if entered > 0 then
  redis.call('HSET', state, 'last', whole(last))
  redis.call('EXPIREAT', queue, expiry(math.max(now, tonumber(s[1]) or 0), ARGV[2]))
end
return {entered, moved, {epoch}}
