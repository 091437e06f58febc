#!lua flags=allow-oom
-- Moves `journalled` on, after the journal was committed. It changes nothing if the caller read another state: the state is
-- gone, older or of another epoch, or an application was entered in the past since.
-- ARGV  1, 2 `journalled` and `since` as the caller read them  3 the new value
-- Returns 1 if it is written, else 0.
local s = redis.call('HMGET', state, 'opens', 'journalled', 'since', 'last')
local function number(i) return tonumber(s[i]) or 0 end
if not s[1] or number(2) ~= tonumber(ARGV[1]) or number(3) ~= tonumber(ARGV[2]) or number(4) < tonumber(ARGV[3]) then return 0 end
redis.call('HSET', state, 'journalled', ARGV[3])
return 1
