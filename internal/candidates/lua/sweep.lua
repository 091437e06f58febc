#!lua flags=allow-oom
-- Deletes what a coupon that ends has in Redis, if its window has closed, its queue and DLQ are empty, and a restore has
-- handled everybody who was handed over. Who has the coupon stays marked: MySQL may lose the end.
-- ARGV  1 closes (µs)  2 how long the state is kept (s)
-- Returns 1 if it did, else 0.
local closes = tonumber(redis.call('HGET', state, 'closes')) or 0
if clock() < math.max(closes, tonumber(ARGV[1])) then return 0 end
if redis.call('ZCARD', queue) + redis.call('ZCARD', dlq) + redis.call('ZCARD', returned) > 0 then return 0 end
redis.call('UNLINK', queue, rejected, dlq, reasons)
if redis.call('EXPIRE', state, ARGV[2]) == 1 then redis.call('HSET', state, 'final', 1) end
return 1
