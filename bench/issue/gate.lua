-- Accepts one press of a user for a coupon, and appends it to a stream if one is given.
-- KEYS  1 users who pressed (SET)  2 number of accepted presses  3 stream, may be missing
-- ARGV  1 user id  2 seats  3 coupon id
-- Returns the number of the press from 1, 0 for a duplicate, -1 if sold out
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 0 end
local taken = tonumber(redis.call('GET', KEYS[2])) or 0
if taken >= tonumber(ARGV[2]) then return -1 end
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], taken + 1)
if KEYS[3] then redis.call('XADD', KEYS[3], '*', 'c', ARGV[3], 'u', ARGV[1], 'n', taken + 1) end
return taken + 1
