#!lua flags=allow-oom
-- Fences a settlement: once the server's clock has passed the cutoff, no application can arrive below the cutoff. The
-- reply also says how long processes may still put back applications that a server lost.
-- ARGV  1 cutoff (µs)  2 ttl (s) for a state that this script creates
--       3 start of the epoch in which MySQL's counts were seen (µs)  4, 5 accepted and twice in MySQL
--       6 time for putting applications back after the server changed (µs)
-- Returns {µs until the cutoff, µs left for putting back, highest arrival ever given, now}. The fence is complete when the
-- first two are 0. With cutoff 0 nothing is fenced: the script only looks.
local cutoff = tonumber(ARGV[1])
local now = clock()
local early = math.max(0, cutoff - now)
local s = redis.call('HMGET', state, 'last', 'opens', unpack(EPOCH_FIELDS))
local promised = promises(now, {unpack(s, 3)}, {'', 0, 0}, {unpack(ARGV, 3, 5)})
local changes = promised.changes
if early == 0 and (tonumber(s[1]) or 0) < cutoff - 1 then
  changes[#changes + 1], changes[#changes + 2] = 'last', whole(cutoff - 1)
end
if #changes > 0 then
  redis.call('HSET', state, unpack(changes))
  if redis.call('TTL', state) == -1 then redis.call('EXPIRE', state, ARGV[2]) end
end
local left = math.max(0, math.min(promised.since + ARGV[6] - now, tonumber(ARGV[6])))
if promised.base == 0 and s[2] then left = 0 end -- no earlier epoch has accepted anything
return {early, left, math.max(tonumber(s[1]) or 0, early == 0 and cutoff - 1 or 0), now}
