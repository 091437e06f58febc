#!lua flags=no-writes
-- Returns the state of the queue, and what Redis has of some members. It only reads.
-- ARGV  1 an arrival (µs): entries up to it are counted  2… members
-- Returns {now, sold, dlqs, since, waiting, lowest and highest arrival in the queue, entries up to the given arrival,
-- highest arrival ever given, accepted, restored (1: the server was compared with the journal), restores, left, opens,
-- closes, open (1: status is OPEN), dlq, returned}. since and restored are 0 if a member was not found and the server
-- is new to the coupon. Of each member follow: marks (1 issued, 2 rejected, 3 both), arrival in the queue, position,
-- arrival in the DLQ; then the reasons of the members in the DLQ, and the epoch, which is '' whenever since is 0. A
-- missing number is 0, a missing arrival of a member -1, a missing reason ''.
local members = {unpack(ARGV, 2)}
local s = redis.call('HMGET', state, 'sold', 'dlqs', 'last', 'restores', 'left', 'closes', 'status',
  unpack(EPOCH_FIELDS))
local fields = {unpack(s, 8)}
local since = tonumber(fields[3]) or 0
local function edge(place) return arrivalOf(redis.call('ZRANGE', queue, place, place, 'WITHSCORES')[2]) or 0 end
local waiting = redis.call('ZCARD', queue)
local above = redis.call('ZRANGE', queue, '(' .. whole(ARGV[1]), '+inf', 'BYSCORE', 'LIMIT', 0, 1)[1]
local upTo = above and redis.call('ZRANK', queue, above) or waiting
local reply = {clock(), tonumber(s[1]) or 0, tonumber(s[2]) or 0, since, waiting, edge(0), edge(-1), upTo,
  tonumber(s[3]) or 0, countOf(fields[5]), tonumber(fields[4]) == since and 1 or 0, tonumber(s[4]) or 0,
  tonumber(s[5]) or 0, tonumber(fields[6]) or 0, tonumber(s[6]) or 0, s[7] == 'OPEN' and 1 or 0,
  redis.call('ZCARD', dlq), redis.call('ZCARD', returned)}
local epoch = since > 0 and fields[1] and fields[1] .. ':' .. whole(since) or ''
if #members == 0 then
  reply[#reply + 1] = epoch
  return reply
end

local isIssued = redis.call('ZMSCORE', issued, unpack(members))
local isRejected = redis.call('SMISMEMBER', rejected, unpack(members))
local queued = redis.call('ZMSCORE', queue, unpack(members))
local reviewed = redis.call('ZMSCORE', dlq, unpack(members))
local found, n, texts = true, #reply, {}
for i, member in ipairs(members) do
  local marks = (isIssued[i] and 1 or 0) + 2 * isRejected[i]
  local queuedAt, reviewedAt = arrivalOf(queued[i]), arrivalOf(reviewed[i])
  found = found and (marks > 0 or queuedAt or reviewedAt)
  reply[n + 1], reply[n + 2] = marks, queuedAt or -1
  reply[n + 3], reply[n + 4] = queuedAt and redis.call('ZRANK', queue, member) + 1 or 0, reviewedAt or -1
  n = n + 4
  if reviewedAt then texts[#texts + 1] = redis.call('HGET', reasons, member) or '' end
end
for _, text in ipairs(texts) do reply[#reply + 1] = text end
if not found and not current(reply[1], fields) then reply[4], reply[11], epoch = 0, 0, '' end
reply[#reply + 1] = epoch
return reply
