#!lua flags=allow-oom
-- Records whether every seat is taken.
-- ARGV  1 sold (1: every seat is taken, 0: not)  2 ttl (s) for a state that this script creates
-- Returns 1 if the value has changed, else 0.
if (redis.call('HGET', state, 'sold') or '0') == ARGV[1] then return 0 end
redis.call('HSET', state, 'sold', ARGV[1])
if redis.call('TTL', state) == -1 then redis.call('EXPIRE', state, ARGV[2]) end
return 1
