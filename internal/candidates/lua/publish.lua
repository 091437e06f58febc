-- The catalog tells the door its window, and both sides learn the higher promise counter.
-- KEYS  1 state
-- ARGV  1 version  2 opens (µs)  3 closes (µs)  4 status  5 accepted floor  6 last floor (µs)  7 ttl (s)
--       8 sold, 1 when every seat has been given: told only to a door that has lost its
--         state; otherwise settlements say so
-- Returns {published, accepted, last}; published is 0 when a newer version already stands there.
local state = KEYS[1]
local s = redis.call('HMGET', state, 'version', 'accepted', 'last')
local published = 0
if (tonumber(s[1]) or 0) <= tonumber(ARGV[1]) then
  redis.call('HSET', state, 'version', ARGV[1], 'opens', ARGV[2], 'closes', ARGV[3], 'status', ARGV[4])
  if ARGV[8] == '1' and not s[1] then redis.call('HSET', state, 'sold', 1) end
  published = 1
end
local accepted = math.max(tonumber(s[2]) or 0, tonumber(ARGV[5]))
local last = math.max(tonumber(s[3]) or 0, tonumber(ARGV[6]))
redis.call('HSET', state, 'accepted', string.format('%.0f', accepted), 'last', string.format('%.0f', last))

local now = redis.call('TIME')[1]
local closes = math.floor(tonumber(redis.call('HGET', state, 'closes')) / 1000000)
redis.call('EXPIREAT', state, string.format('%.0f', math.max(now, closes) + ARGV[7]))
return {published, accepted, last}
