#!lua flags=allow-oom
-- Hands over, for a restore, the users of a process who do not stand in queue or DLQ at their arrival or an earlier
-- one.
-- ARGV  1 epoch that the process knows  2 1: a mark with an arrival is an answer, too  3 ttl (s)  4… user, arrival
--       (µs), …
-- Returns {index, …, {epoch}}. An index is the number of a user in ARGV who was handed over, starting at 1. Nobody is
-- handed over if another epoch has begun, or the coupon was swept.
local now = clock()
local s = redis.call('HMGET', state, 'closes', 'final', unpack(EPOCH_FIELDS))
local epoch = begin(now, {unpack(s, 3)}, 1, 0, ARGV[3]) -- whoever hands over has seen an arrival
if epoch ~= ARGV[1] or s[2] then return {{epoch}} end
local users, arrivals = {}, {}
for i = 4, #ARGV, 2 do
  users[#users + 1], arrivals[#arrivals + 1] = ARGV[i], tonumber(ARGV[i + 1])
end
local queued = redis.call('ZMSCORE', queue, unpack(users))
local reviewed = redis.call('ZMSCORE', dlq, unpack(users))
local marked = redis.call('ZMSCORE', issued, unpack(users))
local handed, reply = {}, {}
for i, user in ipairs(users) do
  local function stands(score) return score and arrivalOf(score) <= arrivals[i] end
  local answered = ARGV[2] == '1' and marked[i] and tonumber(marked[i]) > 0
  if not stands(queued[i]) and not stands(reviewed[i]) and not answered then
    handed[#handed + 1], handed[#handed + 2] = ARGV[2 * i + 3], user
    reply[#reply + 1] = i
  end
end
if #handed > 0 then
  redis.call('ZADD', returned, 'LT', unpack(handed))
  redis.call('EXPIREAT', returned, expiry(math.max(now, tonumber(s[1]) or 0), ARGV[3]))
end
reply[#reply + 1] = {epoch}
return reply
