#!lua flags=no-writes
-- Where one user's application stands. A read.
-- KEYS  1 queue  2 state  3 issued  4 rejected  5 dlq
-- ARGV  1 user id
-- Returns {code, arrival, position, sold}; numbers that a code has no use for are 0.
--   PENDING (arrival and position), UNDER_REVIEW (arrival), ISSUED, REJECTED
--   NONE  Redis knows of no application
local queue, state, issued, rejected, dlq = unpack(KEYS)
local user = ARGV[1]
local sold = tonumber(redis.call('HGET', state, 'sold')) or 0

-- Before the queue: who is issued stays in it for the moment until the settlement has cleaned up.
if redis.call('SISMEMBER', issued, user) == 1 then return {'ISSUED', 0, 0, sold} end
local LAST_ARRIVAL = 9007199254740991 -- µs: above it a double does not hold every whole number
local function arrivalOf(score) -- somebody's hand may have written any
  return math.max(0, math.min(tonumber(score), LAST_ARRIVAL))
end
local arrival = redis.call('ZSCORE', queue, user)
if arrival then return {'PENDING', arrivalOf(arrival), redis.call('ZRANK', queue, user) + 1, sold} end
arrival = redis.call('ZSCORE', dlq, user)
if arrival then return {'UNDER_REVIEW', arrivalOf(arrival), 0, sold} end
if redis.call('SISMEMBER', rejected, user) == 1 then return {'REJECTED', 0, 0, sold} end
return {'NONE', 0, 0, sold}
