#!lua flags=allow-oom
-- Takes settled applications out of the queue (and the DLQ) where they stand in it side by side, as they almost always
-- do: half the work of naming each.
-- KEYS  1 queue  2 dlq  3 dlq reasons  4 set to add the users to
-- ARGV  1 closes (µs), '' to add nobody  2 ttl of that set (s)  3 how many  4 the first member
--       5 arrival of the first  6 of the last  7 SHA-1 of all members in order, a newline behind each
-- Returns how many were removed; -1 and nothing done where the queue has not exactly these from the first to the last.
local queue, dlq, reasons, set = unpack(KEYS)
local n = tonumber(ARGV[3])

local from = redis.call('ZRANK', queue, ARGV[4])
if not from then return -1 end
local members = redis.call('ZRANGE', queue, from, from + n - 1)
if redis.sha1hex(table.concat(members, '\n') .. '\n') ~= ARGV[7] then return -1 end
-- Who applied again stands behind everybody: the ends speak for those between.
if redis.call('ZSCORE', queue, members[1]) ~= ARGV[5] or redis.call('ZSCORE', queue, members[n]) ~= ARGV[6] then return -1 end

local again = {}
if redis.call('EXISTS', dlq) == 1 then
  for i, score in ipairs(redis.call('ZMSCORE', dlq, unpack(members))) do
    if score and score == redis.call('ZSCORE', queue, members[i]) then again[#again + 1] = members[i] end
  end
end
local removed = redis.call('ZREMRANGEBYRANK', queue, from, from + n - 1)
if #again > 0 then
  removed = removed + redis.call('ZREM', dlq, unpack(again))
  redis.call('HDEL', reasons, unpack(again))
end
if ARGV[1] ~= '' then
  redis.call('SADD', set, unpack(members))
  local now = redis.call('TIME')[1]
  redis.call('EXPIREAT', set, string.format('%.0f', math.max(now, math.floor(ARGV[1] / 1000000)) + ARGV[2]))
end
return removed
