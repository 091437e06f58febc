-- What a coupon's door goes by, and how its entries under review are kept, at one instant. A read.
-- KEYS  1 state  2 dlq  3 dlq reasons
-- Returns {now, dlq entries, reasons, ms until one of these two keys expires or -1, {opens, closes, status, version}}
-- The texts are '' where there is none.
local state, dlq, reasons = unpack(KEYS)
local time = redis.call('TIME')
local s = redis.call('HMGET', state, 'opens', 'closes', 'status', 'version')
local expires = -1
for _, key in ipairs({dlq, reasons}) do
  local ttl = redis.call('PTTL', key)
  if ttl >= 0 and (expires < 0 or ttl < expires) then expires = ttl end
end
return {time[1] * 1000000 + time[2], redis.call('ZCARD', dlq), redis.call('HLEN', reasons), expires,
  {s[1] or '', s[2] or '', s[3] or '', s[4] or ''}}
