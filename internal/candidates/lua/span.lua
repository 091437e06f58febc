-- How many who stand in Redis arrived within a span of time, at one instant.
-- KEYS  1 queue  2 dlq
-- ARGV  1 the first arrival (µs) of the span  2 the first behind it
-- Returns {waiting, dlq}
local queue, dlq = unpack(KEYS)
return {redis.call('ZCOUNT', queue, ARGV[1], '(' .. ARGV[2]), redis.call('ZCOUNT', dlq, ARGV[1], '(' .. ARGV[2])}
