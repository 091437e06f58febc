-- Answers the applications of several users, in the order of ARGV. It has no flag allow-oom, so a full Redis accepts no
-- new application, but still gives all other answers.
-- ARGV  1 highest arrival that the process has seen (µs)  2 ttl (s)  3… user ids
-- Returns {now, opens, restores, epoch, …}; code, arrival and position of each user follow. If all users are ACCEPTED
-- one after the other, only arrival and position of the first user follow: each other user has one more of both than
-- the user before. A number that has no meaning is 0. If applying is not possible, epoch is ''. The codes are:
--   ACCEPTED, DUPLICATE (arrival: the first one; position: the current one), UNDER_REVIEW (arrival)
--   ALREADY_ISSUED, REJECTED, SOLD_OUT, NOT_OPEN, PAUSED
--   LINE_FULL  as many applications as line_limit says wait in the queue (arrival: the lowest one among them)
--   CLOSED     the window has closed, or the next arrival would not lie before its end
--   NO_WINDOW  no catalog refresh has written this coupon's window yet
--   CLOCK      the last arrival is more than 5 s ahead of the clock of this server
local users = {unpack(ARGV, 3)}

local now = clock()
local s = redis.call('HMGET', state, 'closes', 'status', 'sold', 'last', 'line_limit', 'restores', unpack(EPOCH_FIELDS))
local fields = {unpack(s, 7)}
local opens, closes = tonumber(fields[6]), tonumber(s[1])

local reply, n = {now, opens or 0, tonumber(s[6]) or 0, ''}, 4
local function answer(code, arrival, position)
  reply[n + 1], reply[n + 2], reply[n + 3] = code, arrival or 0, position or 0
  n = n + 3
end
local function answerAll(code)
  for _ = 1, #users do answer(code) end
  return reply
end

if not opens or not closes then return answerAll('NO_WINDOW') end
if now < opens then return answerAll('NOT_OPEN') end
if now >= closes then return answerAll('CLOSED') end
if s[2] ~= 'OPEN' then return answerAll('PAUSED') end
reply[4] = begin(now, fields, tonumber(ARGV[1]), 0, ARGV[2])

local queued = redis.call('ZMSCORE', queue, unpack(users))
local reviewed = redis.call('ZMSCORE', dlq, unpack(users))
local isIssued = redis.call('ZMSCORE', issued, unpack(users))
local isRejected = redis.call('SMISMEMBER', rejected, unpack(users))

local last = math.max(tonumber(s[4]) or 0, tonumber(ARGV[1]))
local first = math.max(now, last + 1)
local limit = tonumber(s[5]) or 0 -- 0: none
local room = limit > 0 and limit - redis.call('ZCARD', queue) or math.huge -- how many users can be accepted
local lowest        -- arrival in the queue; nil: not read yet
local count = 0     -- number of accepted users; their arrivals are first, first + 1, …
local accepted = {} -- {score, member, …} for ZADD
local arrivals = {} -- user id → arrival, for accepted users
for i, user in ipairs(users) do
  if queued[i] then
    answer('DUPLICATE', arrivalOf(queued[i]), redis.call('ZRANK', queue, user) + 1)
  elseif arrivals[user] then
    answer('DUPLICATE', arrivals[user])
  elseif reviewed[i] then
    answer('UNDER_REVIEW', arrivalOf(reviewed[i]))
  elseif isIssued[i] then
    answer('ALREADY_ISSUED')
  elseif isRejected[i] == 1 then
    answer('REJECTED')
  elseif s[3] == '1' then
    answer('SOLD_OUT')
  elseif count >= room then
    lowest = lowest or arrivalOf(redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')[2]) or first
    answer('LINE_FULL', lowest)
  elseif last > now + MAX_AHEAD then
    answer('CLOCK')
  elseif first + count >= closes then
    answer('CLOSED')
  else
    local arrival = first + count
    count = count + 1
    arrivals[user] = arrival
    accepted[2 * count - 1], accepted[2 * count] = arrival, user -- Redis gets the arrival with all its digits
    answer('ACCEPTED', arrival)
  end
end
if count == 0 then return reply end

redis.call('ZADD', queue, 'NX', unpack(accepted))
redis.call('HSET', state, 'last', whole(first + count - 1), 'accepted', whole(countOf(fields[5]) + count))
local expires = expiry(math.max(now, closes), ARGV[2])
redis.call('EXPIREAT', queue, expires)
redis.call('EXPIREAT', state, expires)

-- Two ZRANKs suffice if the accepted users are neighbours. Only an entry written by hand can lie between them.
local ahead = redis.call('ZRANK', queue, accepted[2])
local together = redis.call('ZRANK', queue, accepted[2 * count]) - ahead == count - 1
if together and count == #users then return {reply[1], reply[2], reply[3], reply[4], first, ahead + 1} end
for i, user in ipairs(users) do
  local arrival = arrivals[user]
  if arrival then
    reply[3 * i + 4] = 1 + (together and ahead + arrival - first or redis.call('ZRANK', queue, user))
  end
end
return reply
