#!lua flags=no-writes
-- Reads the status of one user's application.
-- KEYS  1 queue  2 state  3 issued  4 rejected  5 dlq
-- ARGV  1 user id
-- Returns {code, arrival, position, sold}. Numbers without a meaning are 0.
--   PENDING (arrival and position), UNDER_REVIEW (arrival), ISSUED, REJECTED
--   NONE  Redis has no application
local queue, state, issued, rejected, dlq = unpack(KEYS)
local user = ARGV[1]
local sold = tonumber(redis.call('HGET', state, 'sold')) or 0

-- First of all: an issued user stays in the queue until the clean-up.
if redis.call('SISMEMBER', issued, user) == 1 then return {'ISSUED', 0, 0, sold} end
local LAST_ARRIVAL = 9007199254740991 -- µs: above it a double does not hold every whole number
local function arrivalOf(score) -- which may be written by hand
  return math.max(0, math.min(tonumber(score), LAST_ARRIVAL))
end
local arrival = redis.call('ZSCORE', queue, user)
if arrival then return {'PENDING', arrivalOf(arrival), redis.call('ZRANK', queue, user) + 1, sold} end
arrival = redis.call('ZSCORE', dlq, user)
if arrival then return {'UNDER_REVIEW', arrivalOf(arrival), 0, sold} end
if redis.call('SISMEMBER', rejected, user) == 1 then return {'REJECTED', 0, 0, sold} end
return {'NONE', 0, 0, sold}
