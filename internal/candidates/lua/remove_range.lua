#!lua flags=allow-oom
-- Removes settled applications that are neighbours in the queue, also from the DLQ. They almost always are, and this is half
-- the work of naming each.
-- KEYS  1 queue  2 dlq  3 dlq reasons  4 set to add the users to
-- ARGV  1 closes (µs), '' to add no user  2 ttl of that set (s)  3 how many  4 first member
--       5 arrival of the first  6 of the last  7 SHA-1 of all members in order, each followed by a newline
-- Returns how many were removed; -1 if the queue does not have exactly these members from the first to the last.
local queue, dlq, reasons, set = unpack(KEYS)
local n = tonumber(ARGV[3])

local from = redis.call('ZRANK', queue, ARGV[4])
if not from then return -1 end
local members = redis.call('ZRANGE', queue, from, from + n - 1)
if redis.sha1hex(table.concat(members, '\n') .. '\n') ~= ARGV[7] then return -1 end
-- A user who applied again has a higher arrival than all others: comparing the ends is enough.
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
