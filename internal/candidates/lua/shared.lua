-- Begins every script.
-- KEYS  all keys of the coupon: 1 queue  2 state  3 issued  4 rejected  5 dlq  6 dlq reasons
local queue, state, issued, rejected, dlq, reasons = unpack(KEYS)

local function clock() -- µs
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- A number as text, for Redis: Lua alone would write 1.7950779328e+15.
local function whole(n) return string.format('%.0f', n) end

-- The arrival (µs) of a score, which may be written by hand. False without a score. Above 2^53 - 1 a double does not hold every
-- whole number.
local function arrivalOf(score) return score and math.max(0, math.min(math.floor(tonumber(score)), 9007199254740991)) end

-- When a key expires that lives for ttl (s) after an instant (µs).
local function expiry(instant, ttl) return whole(math.floor(instant / 1000000) + ttl) end
