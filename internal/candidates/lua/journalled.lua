#!lua flags=allow-oom
-- Moves `journalled` on, after the journal was committed. It changes nothing if somebody was entered since the caller
-- read `journalled`, or if the state is gone.
-- ARGV  1 `journalled` as the caller read it  2 the new value
-- Returns 1 if it is written, else 0.
local opens, journalled = unpack(redis.call('HMGET', state, 'opens', 'journalled'))
if not opens or (tonumber(journalled) or 0) ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', state, 'journalled', ARGV[2])
return 1
