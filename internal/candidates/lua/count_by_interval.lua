#!lua flags=no-writes
-- Counts the applications whose arrival lies in each of several consecutive intervals. It only reads.
-- ARGV  bounds of the intervals (µs), ascending; an interval includes its lower bound and excludes its upper one
-- Returns {waiting, dlq, …}: two numbers for each interval.
local counts = {}
for i = 1, #ARGV - 1 do
  counts[2 * i - 1] = redis.call('ZCOUNT', queue, ARGV[i], '(' .. ARGV[i + 1])
  counts[2 * i] = redis.call('ZCOUNT', dlq, ARGV[i], '(' .. ARGV[i + 1])
end
return counts
