#!lua flags=no-writes,allow-cross-slot-keys
-- Finds out which queues of one shard are not empty. It only reads.
-- ARGV  names of queues
-- Returns the places of those that are not empty, from 1.
local places = {}
for i, name in ipairs(ARGV) do
  if redis.call('EXISTS', name) == 1 then places[#places + 1] = i end
end
return places
