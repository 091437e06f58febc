#!lua flags=allow-oom
-- Removes settled applications that are neighbours in the queue, and their entries in the DLQ. They almost always are
-- neighbours; this script takes half the time of remove.lua.
-- ARGV  1–3 are described in settled.lua  4 number of members  5 first member
--       6 arrival of the first member (µs)  7 arrival of the last member (µs)
--       8 SHA-1 of all members in order, each followed by a newline
-- Returns how many entries were removed. If the members are not neighbours in the queue, removes none and returns -1.
local n = tonumber(ARGV[4])
local from = redis.call('ZRANK', queue, ARGV[5])
if not from then return -1 end
local entries = redis.call('ZRANGE', queue, from, from + n - 1, 'WITHSCORES')
local members, arrivals = {}, {}
for i = 1, #entries, 2 do
  members[#members + 1], arrivals[#arrivals + 1] = entries[i], entries[i + 1]
end
if redis.sha1hex(table.concat(members, '\n') .. '\n') ~= ARGV[8] then return -1 end
-- The two ends suffice: a user who applied again has the highest arrival, and can only be the last member.
if arrivals[1] ~= ARGV[6] or arrivals[n] ~= ARGV[7] then return -1 end

local reviewed = {}
if redis.call('EXISTS', dlq) == 1 then
  for i, score in ipairs(redis.call('ZMSCORE', dlq, unpack(members))) do
    if score == arrivals[i] then reviewed[#reviewed + 1] = members[i] end
  end
end
return finish(redis.call('ZREMRANGEBYRANK', queue, from, from + n - 1), members, arrivals, reviewed)
