#!lua flags=no-writes
-- Returns the status of one user's application. It only reads.
-- ARGV  1 user id
-- Returns {code, arrival, position, sold, now}. A number that has no meaning is 0. The codes are:
--   PENDING (arrival and position), UNDER_REVIEW (arrival), ISSUED, REJECTED
--   NONE  Redis has no application
local user, now = ARGV[1], clock()
local sold = tonumber(redis.call('HGET', state, 'sold')) or 0

-- The set issued is checked first, because an issued user may still be in the queue.
if redis.call('SISMEMBER', issued, user) == 1 then return {'ISSUED', 0, 0, sold, now} end
local arrival = arrivalOf(redis.call('ZSCORE', queue, user))
if arrival then return {'PENDING', arrival, redis.call('ZRANK', queue, user) + 1, sold, now} end
arrival = arrivalOf(redis.call('ZSCORE', dlq, user))
if arrival then return {'UNDER_REVIEW', arrival, 0, sold, now} end
if redis.call('SISMEMBER', rejected, user) == 1 then return {'REJECTED', 0, 0, sold, now} end
return {'NONE', 0, 0, sold, now}
