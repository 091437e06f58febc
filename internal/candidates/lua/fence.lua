#!lua flags=allow-oom
-- Lets a settlement begin: once this clock has passed the cutoff, no later application can arrive below it, and once
-- pods have had their time since another server took over, nobody is missing whose pod lives.
-- KEYS  1 state
-- ARGV  1 cutoff (µs)  2 ttl (s), for a state that nobody has written yet
--       3 since when the epoch is that MySQL's counts are of (µs)  4, 5 accepted and twice as MySQL has them
--       6 how much time pods have to put back whom they remember (µs)
-- Returns the µs still to wait {for the cutoff, for the pods}; twice 0 when the fence stands. Which server it is, is noted also
-- before the cutoff.
local state, cutoff = KEYS[1], tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local early = math.max(0, cutoff - now)
local s = redis.call('HMGET', state, 'last', 'opens', unpack(EPOCH_FIELDS))
local promised = promises(now, {unpack(s, 3)}, {'', 0, 0}, {unpack(ARGV, 3, 5)})
local changes = promised.changes
if early == 0 and (tonumber(s[1]) or 0) < cutoff - 1 then
  changes[#changes + 1], changes[#changes + 2] = 'last', string.format('%.0f', cutoff - 1)
end
if #changes > 0 then
  redis.call('HSET', state, unpack(changes))
  if redis.call('TTL', state) == -1 then redis.call('EXPIRE', state, ARGV[2]) end
end
if promised.base == 0 and s[2] then return {early, 0} end -- nobody was promised anything before, unless the state was lost
return {early, math.max(0, math.min(promised.since + ARGV[6] - now, tonumber(ARGV[6])))}
