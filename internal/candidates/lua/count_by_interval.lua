#!lua flags=no-writes
-- How many who stand in Redis arrived within spans of time that follow each other, at one instant.
-- KEYS  1 queue  2 dlq
-- ARGV  arrivals (µs), ascending: a span is from one on and before the next
-- Returns {waiting, dlq, …}, two numbers for each span
local queue, dlq = unpack(KEYS)
local counts = {}
for i = 1, #ARGV - 1 do
  counts[2 * i - 1] = redis.call('ZCOUNT', queue, ARGV[i], '(' .. ARGV[i + 1])
  counts[2 * i] = redis.call('ZCOUNT', dlq, ARGV[i], '(' .. ARGV[i + 1])
end
return counts
