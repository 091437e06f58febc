#!lua flags=allow-oom
-- Removes settled applications from queue and DLQ, each only with this arrival.
-- KEYS  1 queue  2 dlq  3 dlq reasons  4 set to add the users to
-- ARGV  1 closes (µs), '' to add no user  2 ttl of that set (s)  3… member, arrival (µs), …
-- Returns how many were removed.
local queue, dlq, reasons, set = unpack(KEYS)
local members, arrivals = {}, {}
for i = 3, #ARGV, 2 do
  members[#members + 1] = ARGV[i]
  arrivals[#arrivals + 1] = tonumber(ARGV[i + 1])
end

local function arrival(score)
  return math.max(0, math.min(math.floor(tonumber(score)), 9007199254740991))
end

local function present(key)
  local found = {}
  if redis.call('EXISTS', key) == 0 then return found end
  for i, score in ipairs(redis.call('ZMSCORE', key, unpack(members))) do
    if score and arrival(score) == arrivals[i] then found[#found + 1] = members[i] end
  end
  return found
end

local removed = 0
local found = present(queue)
if #found > 0 then removed = redis.call('ZREM', queue, unpack(found)) end
found = present(dlq)
if #found > 0 then
  removed = removed + redis.call('ZREM', dlq, unpack(found))
  redis.call('HDEL', reasons, unpack(found))
end
if ARGV[1] ~= '' then
  redis.call('SADD', set, unpack(members))
  local now = redis.call('TIME')[1]
  redis.call('EXPIREAT', set, string.format('%.0f', math.max(now, math.floor(ARGV[1] / 1000000)) + ARGV[2]))
end
return removed
