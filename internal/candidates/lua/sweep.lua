#!lua flags=allow-oom
-- Unlinks the keys of a finalised coupon whose window has closed and whose queue and DLQ are empty.
-- ARGV  1 closes (µs)  2 how long the state is kept (s)
-- Returns 1 when swept, 0 when not.
local closes = tonumber(redis.call('HGET', state, 'closes')) or 0
if clock() < math.max(closes, tonumber(ARGV[1])) then return 0 end
if redis.call('ZCARD', queue) > 0 or redis.call('ZCARD', dlq) > 0 then return 0 end
redis.call('UNLINK', queue, issued, rejected, dlq, reasons)
if redis.call('EXPIRE', state, ARGV[2]) == 1 then redis.call('HSET', state, 'final', 1) end -- no application is put back any more
return 1
