#!lua flags=allow-oom
-- Looks at a coupon: all of it at the same instant. It begins an epoch if the server is new to the coupon. With a
-- cutoff it also fences a settlement: once the server's clock has passed the cutoff, no application can arrive below
-- it.
-- ARGV  1 highest arrival that the caller and the journal know (µs)  2 start of the window by the coupon's row (µs; 0:
--       unknown)  3 an arrival (µs): entries above it are counted separately  4 cutoff (µs; 0: none)
--       5 ttl (s) for a state that this script creates
--       6 how many promises MySQL accounts for; 0: unknown. left falls if fewer are missing than the last restore has
--       left
-- Returns what line.lua says.
local now = clock()
local s = redis.call('HMGET', state, unpack(LINE_FIELDS))
local epoch, since, restored = begin(now, {unpack(s, 9)}, tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[5])
local cutoff = tonumber(ARGV[4])
if now >= cutoff and (tonumber(s[3]) or 0) < cutoff - 1 then
  s[3] = whole(cutoff - 1)
  redis.call('HSET', state, 'last', s[3])
end
local found = line(now, epoch, since, restored, s, ARGV[3])
local missing = math.max(0, found[6] - ARGV[6] - found[8] - found[9])
if missing < found[5] then -- as many that are lost later would be taken for those
  found[5] = missing
  redis.call('HSET', state, 'left', whole(missing))
end
return found
