#!lua flags=allow-oom
-- Fences a settlement: after this clock has passed the cutoff, no application arrives below it any more, and after the time
-- for putting back, no application is missing whose process lives.
-- ARGV  1 cutoff (µs)  2 ttl (s), for a new state
--       3 beginning of the epoch of MySQL's counts (µs)  4, 5 accepted and twice in MySQL
--       6 time for putting applications back after a change of the server (µs)
-- Returns the µs to wait {for the cutoff, for putting back}; both are 0 when the fence is complete. The epoch also begins
-- before the cutoff.
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
if promised.base == 0 and s[2] then return {early, 0} end -- no earlier epoch counted anything, and the state is not lost
return {early, math.max(0, math.min(promised.since + ARGV[6] - now, tonumber(ARGV[6])))}
