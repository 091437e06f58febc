#!lua flags=allow-oom
-- Says at the door whether every seat is taken.
-- KEYS  1 state
-- ARGV  1 sold, 0 or 1  2 ttl (s), for a state that nobody has written yet
-- Returns 1 when this changed it.
local state = KEYS[1]
if (redis.call('HGET', state, 'sold') or '0') == ARGV[1] then return 0 end
redis.call('HSET', state, 'sold', ARGV[1])
if redis.call('TTL', state) == -1 then redis.call('EXPIRE', state, ARGV[2]) end
return 1
