#!lua flags=allow-oom
-- Puts back applications that a server lost: to their first arrival, or to the end of the queue if no reply came.
-- ARGV  1 epoch that the process knows  2, 3 accepted and twice as the process has seen them in that epoch  4 ttl (s)
--       5 1: the journal has these applications at these arrivals, else 0
--       6… user id, arrival (µs; 0: no reply came), counted (1: another server may have counted the application), …
-- Returns {now, accepted, twice, number put back, number moved to an earlier arrival, {code, epoch}}. The codes are:
--   DONE
--   NO_WINDOW  nothing has changed: no catalog refresh has written this coupon's window yet
--   FINAL      nothing has changed: the coupon is finalised
-- An application without a reply is put back only if it could be accepted now: the window is open, a seat is free, and
-- fewer applications wait than line_limit says. An application with an arrival is put back regardless.
-- Nothing moves if the user is under review, issued or rejected, or is in the queue at the given arrival or earlier.
-- `twice` is the number of users whom two servers have counted. A user adds at most 1 to it in each epoch, even if
-- several processes have an answer for the user, or if a call is repeated.
local now = clock()
local s = redis.call('HMGET', state, 'opens', 'closes', 'status', 'sold', 'last', 'final', 'line_limit',
  unpack(EPOCH_FIELDS))
local opens, closes = tonumber(s[1]), tonumber(s[2])
if not opens or not closes then return {now, 0, 0, 0, 0, {'NO_WINDOW', ''}} end
if s[6] then return {now, 0, 0, 0, 0, {'FINAL', ''}} end

local promised = promises(now, {unpack(s, 8)}, {unpack(ARGV, 1, 3)}, {0, 0, 0})
if #promised.changes > 0 then redis.call('HSET', state, unpack(promised.changes)) end
local last, twice = tonumber(s[5]) or 0, promised.twice
local open = s[3] == 'OPEN' and s[4] ~= '1' and now >= opens
local limit = tonumber(s[7]) or 0 -- 0: none
local function lineFull() return limit > 0 and redis.call('ZCARD', queue) >= limit end

-- Marks a user so that `twice` counts the user at most once in this epoch. Returns 1 if the user had no mark yet, else
-- 0.
local function note(user)
  local field, since = 'twice:' .. user, whole(promised.since)
  if redis.call('HGET', state, field) == since then return 0 end
  redis.call('HSET', state, field, since)
  return 1
end

local back, moved, lowest = 0, 0, nil
local function enter(flag, user, arrival)
  redis.call('ZADD', queue, flag, arrival, user)
  redis.call('HDEL', reasons, user) -- of a DLQ entry that is lost
  lowest = math.min(lowest or math.huge, tonumber(arrival))
end
for i = 6, #ARGV, 3 do
  local user, arrival, counted = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2] == '1'
  local at = redis.call('ZSCORE', queue, user)
  at = at and tonumber(at)
  local elsewhere = redis.call('ZSCORE', dlq, user) or redis.call('SISMEMBER', issued, user) == 1
    or redis.call('SISMEMBER', rejected, user) == 1
  if elsewhere then
    -- nothing to put back
  elseif at and arrival > 0 and at > arrival then
    enter('XX', user, ARGV[i + 1])
    moved = moved + 1
    if at >= promised.since then twice = twice + note(user) end -- counted by both servers
  elseif at then
    if counted and at ~= arrival and at >= promised.since then twice = twice + note(user) end -- counted by both servers
  elseif arrival > 0 then
    enter('NX', user, ARGV[i + 1])
    last, back = math.max(last, arrival), back + 1
  elseif open and math.max(now, last + 1) < closes and not lineFull() then
    last = math.max(now, last + 1)
    enter('NX', user, whole(last))
    note(user) -- a repeated call must not count this user in `twice`
  end
end
if lowest and ARGV[5] ~= '1' then journalAgain(lowest) end
-- No server has counted some of the entries, such as applications without a reply. They were accepted before this
-- epoch, which counts its own, and are now added to `accepted` and to `base`.
local uncounted = math.max(redis.call('ZCARD', queue) + redis.call('ZCARD', dlq) + twice - promised.accepted, 0)
local accepted = promised.accepted + uncounted
redis.call('HSET', state, 'last', whole(last), 'twice', whole(twice),
  'accepted', whole(accepted), 'base', whole(promised.base + uncounted))
local expires = expiry(math.max(now, closes), ARGV[4])
redis.call('EXPIREAT', queue, expires)
redis.call('EXPIREAT', state, expires)
return {now, accepted, twice, back, moved, {'DONE', promised.epoch}}
