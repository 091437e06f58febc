-- Shared by look.lua and observe.lua, which return the same.
local LINE_FIELDS = {'restores', 'left', 'last', 'sold', 'dlqs', 'closes', 'status', 'final', unpack(EPOCH_FIELDS)}

-- Returns what Redis has of a coupon: {now, since, restored (1: the server was compared with the journal), restores,
-- left, accepted, last, waiting, dlq, issued by runs, rejected, returned, sold, changes of the dlq, highest arrival in
-- queue and dlq, waiting above the given arrival, dlq above it, opens, closes, open (1: status is OPEN), issued by hand,
-- swept (1: and nothing has happened since), {epoch}}. s has the values of LINE_FIELDS.
local function line(now, epoch, since, restored, s, arrival)
  local above = whole(arrival + 1) -- a fractional score written by hand counts as rounded down
  local function number(i) return tonumber(s[i]) or 0 end
  -- Returns how many entries a key has, their highest arrival, and how many of them are above the given one.
  local function entries(key)
    local n = redis.call('ZCARD', key)
    if n == 0 then return 0, 0, 0 end -- looks at idle coupons are the most frequent ones
    return n, arrivalOf(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]), redis.call('ZCOUNT', key, above, '+inf')
  end
  local waiting, lastWaiting, waitingAbove = entries(queue)
  local failed, lastFailed, failedAbove = entries(dlq)
  local marked = redis.call('ZCARD', issued)
  local byRun = marked > 0 and redis.call('ZCOUNT', issued, '(0', '+inf') or 0
  return {now, since, restored and 1 or 0, number(1), restored and number(2) or 0, countOf(s[13]), number(3), waiting,
    failed, byRun, redis.call('SCARD', rejected), redis.call('ZCARD', returned), number(4), number(5),
    math.max(lastWaiting, lastFailed), waitingAbove, failedAbove, number(14), number(6), s[7] == 'OPEN' and 1 or 0,
    marked - byRun, s[8] and 1 or 0, {epoch}}
end
