#!lua flags=allow-oom
-- Ends a restore: the server has everybody whom the journal has and who is accounted for nowhere else.
-- ARGV  1 epoch of the restore  2 how many promises MySQL accounts for: issued, concluded, written off and erased
--       3 how many of them are in Redis, too  4 how many were missing as the restore began, without those
--         whom it has entered: more are a loss that happened meanwhile
--       5 highest arrival that journal and MySQL know (µs)  6 1: pods compare their memory with the server once more
-- Returns {1, missing, accepted}, or {0, 0, 0} if another epoch has begun: then nothing changes.
local now = clock()
local s = redis.call('HMGET', state, 'last', 'restores', 'forward', unpack(EPOCH_FIELDS))
local fields, restores, forward = {unpack(s, 4)}, tonumber(s[2]) or 0, tonumber(s[3]) or 0
local epoch, since = current(now, fields)
if epoch ~= ARGV[1] then return {0, 0, 0} end
local here = redis.call('ZCARD', queue) + redis.call('ZCARD', dlq)
-- An excess would hide as many losses.
local accepted = math.max(countOf(fields[5]), here + ARGV[2] - ARGV[3])
local function missing() return math.max(0, accepted - ARGV[2] - here) end
local moved = math.min(missing(), forward) -- who moved forward was counted twice, and as missing
accepted = accepted - moved
local changes = {'accepted', whole(accepted), 'restored', whole(since),
  'left', whole(math.min(missing(), math.max(0, ARGV[4] - moved))), 'restores', whole(restores + ARGV[6])}
if (tonumber(s[1]) or 0) > now + MAX_AHEAD then -- somebody wrote it: nobody could apply any more
  local function highest(key) return arrivalOf(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]) or 0 end
  changes[#changes + 1] = 'last'
  changes[#changes + 1] = whole(math.max(tonumber(ARGV[5]), highest(queue), highest(dlq)))
end
redis.call('HSET', state, unpack(changes))
redis.call('HDEL', state, 'final', 'forward')
return {1, missing(), accepted}
