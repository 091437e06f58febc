#!lua flags=allow-oom
-- Writes whether every seat is taken.
-- ARGV  1 sold, 0 or 1  2 ttl (s), for a new state
-- Returns 1 if it changed.
if (redis.call('HGET', state, 'sold') or '0') == ARGV[1] then return 0 end
redis.call('HSET', state, 'sold', ARGV[1])
if redis.call('TTL', state) == -1 then redis.call('EXPIRE', state, ARGV[2]) end
return 1
