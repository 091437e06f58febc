#!lua flags=no-writes
-- Returns the state of the queue, and of some users' applications. It only reads.
-- ARGV  1 an arrival (µs): entries up to it are counted  2… user ids
-- Returns {now, sold, dlqs, since, waiting, lowest and highest arrival in the queue, entries up to the given arrival,
-- highest arrival ever given, window (1: there is one; 0: there is none, or nobody was found and this server is new to the
-- coupon, so that it may lack applications), accepted, twice, base, restored, missing, dlq}; code, arrival and
-- position of each user follow. A number that has no meaning is 0. The codes are:
--   PENDING (arrival and position), UNDER_REVIEW (arrival), ISSUED, REJECTED
--   NONE  Redis has no application
local users = {unpack(ARGV, 2)}
local s = redis.call('HMGET', state, 'sold', 'dlqs', 'since', 'last', 'opens', 'accepted', 'twice', 'base',
  'restored', 'missing')
local function edge(place) return arrivalOf(redis.call('ZRANGE', queue, place, place, 'WITHSCORES')[2]) or 0 end
local waiting = redis.call('ZCARD', queue)
local above = redis.call('ZRANGE', queue, '(' .. whole(ARGV[1]), '+inf', 'BYSCORE', 'LIMIT', 0, 1)[1]
local upTo = above and redis.call('ZRANK', queue, above) or waiting
local reply = {clock(), tonumber(s[1]) or 0, tonumber(s[2]) or 0, tonumber(s[3]) or 0, waiting, edge(0), edge(-1), upTo,
  tonumber(s[4]) or 0, s[5] and 1 or 0}
for i = 6, 10 do reply[#reply + 1] = tonumber(s[i]) or 0 end
reply[#reply + 1] = redis.call('ZCARD', dlq)
local head = #reply
if #users == 0 then return reply end

local isIssued = redis.call('SMISMEMBER', issued, unpack(users))
local queued = redis.call('ZMSCORE', queue, unpack(users))
local reviewed = redis.call('ZMSCORE', dlq, unpack(users))
local isRejected = redis.call('SMISMEMBER', rejected, unpack(users))
local found = true
for i, user in ipairs(users) do
  local code, arrival, position = 'NONE', 0, 0
  if isIssued[i] == 1 then -- checked first, because an issued user may still be in the queue
    code = 'ISSUED'
  elseif queued[i] then
    code, arrival, position = 'PENDING', arrivalOf(queued[i]), redis.call('ZRANK', queue, user) + 1
  elseif reviewed[i] then
    code, arrival = 'UNDER_REVIEW', arrivalOf(reviewed[i])
  elseif isRejected[i] == 1 then
    code = 'REJECTED'
  else
    found = false
  end
  reply[head + 3 * i - 2], reply[head + 3 * i - 1], reply[head + 3 * i] = code, arrival, position
end
if not found and #promises(reply[1], redis.call('HMGET', state, unpack(EPOCH_FIELDS)), {'', 0, 0}, {0, 0, 0}).changes > 0 then
  reply[10] = 0
end
return reply
