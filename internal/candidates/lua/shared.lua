-- This text is part of every script.
-- KEYS  all keys of the coupon: 1 queue  2 state  3 issued  4 rejected  5 dlq  6 dlq reasons  7 returned
local queue, state, issued, rejected, dlq, reasons, returned = unpack(KEYS)

local function clock() -- µs since 1970
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Returns a whole number as text. Lua by itself would write 1.7950779328e+15.
local function whole(n) return string.format('%.0f', n) end

-- Returns the arrival (µs) of a score; false if there is no score. A score written by hand may exceed these limits.
local function arrivalOf(score)
  return score and math.max(0, math.min(math.floor(tonumber(score)), 9007199254740991))
end

-- Counts a change of the DLQ, so that immediate runs need not read an unchanged DLQ.
local function dlqChanged()
  if redis.call('EXISTS', state) == 1 then
    redis.call('HSET', state, 'dlqs', whole((tonumber(redis.call('HGET', state, 'dlqs')) or 0) + 1))
  end
end

-- Returns when a key expires (s since 1970) that lives for ttl (s) after an instant (µs since 1970).
local function expiry(instant, ttl) return whole(math.floor(instant / 1000000) + ttl) end
