#!lua flags=allow-oom
-- Clears away a finished coupon: nothing waits, nothing is under review, and its door is shut for good.
-- KEYS  1 queue  2 state  3 issued  4 rejected  5 dlq  6 dlq reasons
-- ARGV  1 closes (µs)  2 how long the state is kept (s)
-- Returns 1 when swept, 0 when something still stands or the door is not shut.
local queue, state, issued, rejected, dlq, reasons = unpack(KEYS)
local time = redis.call('TIME')
local closes = tonumber(redis.call('HGET', state, 'closes')) or 0
if time[1] * 1000000 + time[2] < math.max(closes, tonumber(ARGV[1])) then return 0 end
if redis.call('ZCARD', queue) > 0 or redis.call('ZCARD', dlq) > 0 then return 0 end
redis.call('UNLINK', queue, issued, rejected, dlq, reasons)
if redis.call('EXPIRE', state, ARGV[2]) == 1 then redis.call('HSET', state, 'final', 1) end -- nobody is put back here any more
return 1
