-- Shared by look.lua and observe.lua, which return the same.
local LINE_FIELDS = {'restores', 'left', 'last', 'sold', 'dlqs', 'closes', 'status', unpack(EPOCH_FIELDS)}

-- Returns what Redis has of a coupon: {now, since, restored (1: the server was compared with the journal), restores,
-- left, accepted, last, waiting, dlq, issued by runs, rejected, returned, sold, changes of the dlq, highest arrival in
-- queue and dlq, waiting above the given arrival, dlq above it, opens, closes, open (1: status is OPEN), issued by hand,
-- {epoch}}. s has the values of LINE_FIELDS.
local function line(now, epoch, since, restored, s, arrival)
  local function number(i) return tonumber(s[i]) or 0 end
  local function highest(key) return arrivalOf(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]) or 0 end
  local above = whole(arrival + 1) -- a fractional score written by hand counts as rounded down
  local byRun = redis.call('ZCOUNT', issued, '(0', '+inf')
  return {now, since, restored and 1 or 0, number(1), restored and number(2) or 0, countOf(s[12]), number(3),
    redis.call('ZCARD', queue), redis.call('ZCARD', dlq), byRun, redis.call('SCARD', rejected),
    redis.call('ZCARD', returned), number(4), number(5), math.max(highest(queue), highest(dlq)),
    redis.call('ZCOUNT', queue, above, '+inf'), redis.call('ZCOUNT', dlq, above, '+inf'),
    number(13), number(6), s[7] == 'OPEN' and 1 or 0, redis.call('ZCARD', issued) - byRun, {epoch}}
end
