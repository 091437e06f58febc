#!lua flags=allow-oom
-- Notes that a restore has ended.
-- ARGV  1 epoch of the server that was compared with the journal  2 how many promises are still missing
-- Returns 1 if it is noted, 0 if another epoch has begun.
local s = redis.call('HMGET', state, 'run_id', 'since')
if not s[1] or not s[2] or s[1] .. ':' .. s[2] ~= ARGV[1] then return 0 end
redis.call('HSET', state, 'restored', s[2], 'missing', ARGV[2])
return 1
