#!lua flags=no-writes
-- Returns everything that Redis stores about one user and one coupon. It only reads.
-- ARGV  1 user id
-- Returns {now, marked issued, marked rejected, waiting, position, accepted, last,
--          {opens, closes, status, sold, score in the queue, score in the dlq, reason}}
-- A missing text is '', a missing number is 0.
local user = ARGV[1]
local s = redis.call('HMGET', state, 'accepted', 'last', 'opens', 'closes', 'status', 'sold')
local waits, reviewed = redis.call('ZSCORE', queue, user), redis.call('ZSCORE', dlq, user)
return {clock(),
  redis.call('SISMEMBER', issued, user), redis.call('SISMEMBER', rejected, user),
  redis.call('ZCARD', queue), waits and redis.call('ZRANK', queue, user) + 1 or 0,
  tonumber(s[1]) or 0, tonumber(s[2]) or 0,
  {s[3] or '', s[4] or '', s[5] or '', s[6] or '', waits or '', reviewed or '',
   reviewed and redis.call('HGET', reasons, user) or ''}}
