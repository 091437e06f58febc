#!lua flags=allow-oom
-- Enters winners again whom MySQL has forgotten, because it was restored to before their settlement. Their marks stay: the
-- next settlement gives them their seats again.
-- ARGV  1 ttl (s)  2… user id, arrival (µs), …
-- Returns how many were entered. A user is left out who is in the queue or the DLQ already, or is not marked as issued.
local closes, last = unpack(redis.call('HMGET', state, 'closes', 'last'))
if not closes then return 0 end
local n = 0
last = tonumber(last) or 0
for i = 2, #ARGV, 2 do
  local user, arrival = ARGV[i], ARGV[i + 1]
  if redis.call('SISMEMBER', issued, user) == 1 and not redis.call('ZSCORE', dlq, user)
    and redis.call('ZADD', queue, 'NX', arrival, user) == 1 then
    last, n = math.max(last, tonumber(arrival)), n + 1
    journalAgain(tonumber(arrival))
  end
end
if n > 0 then
  redis.call('HSET', state, 'last', whole(last))
  redis.call('EXPIREAT', queue, expiry(math.max(clock(), tonumber(closes)), ARGV[1]))
end
return n
