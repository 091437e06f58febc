#!lua flags=allow-oom
-- Removes settled applications that are neighbours in the queue, also from the DLQ. They almost always are, and this is half
-- the work of naming each.
-- ARGV  1–3 see settled.lua  4 how many  5 first member  6 arrival of the first  7 of the last
--       8 SHA-1 of all members in order, each followed by a newline
-- Returns how many were removed; -1 if the queue does not have exactly these members from the first to the last.
local n = tonumber(ARGV[4])
local from = redis.call('ZRANK', queue, ARGV[5])
if not from then return -1 end
local members = redis.call('ZRANGE', queue, from, from + n - 1)
if redis.sha1hex(table.concat(members, '\n') .. '\n') ~= ARGV[8] then return -1 end
-- A user who applied again has a higher arrival than all others: comparing the ends is enough.
if redis.call('ZSCORE', queue, members[1]) ~= ARGV[6] or redis.call('ZSCORE', queue, members[n]) ~= ARGV[7] then return -1 end

local reviewed = {}
if redis.call('EXISTS', dlq) == 1 then
  for i, score in ipairs(redis.call('ZMSCORE', dlq, unpack(members))) do
    if score and score == redis.call('ZSCORE', queue, members[i]) then reviewed[#reviewed + 1] = members[i] end
  end
end
return finish(redis.call('ZREMRANGEBYRANK', queue, from, from + n - 1), members, reviewed)
