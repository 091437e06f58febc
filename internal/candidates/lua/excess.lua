#!lua flags=allow-oom
-- Raises accepted to what is accounted for: an excess would hide as many losses.
-- ARGV  1 epoch in which it was counted  2 how many promises MySQL accounts for that are not in Redis
-- Returns 1, or 0 if another epoch has begun: then nothing changes.
local fields = redis.call('HMGET', state, unpack(EPOCH_FIELDS))
if current(clock(), fields) ~= ARGV[1] then return 0 end
local before = countOf(fields[5])
local accepted = math.max(before, redis.call('ZCARD', queue) + redis.call('ZCARD', dlq) + ARGV[2])
if accepted > before then redis.call('HSET', state, 'accepted', whole(accepted)) end
return 1
