#!lua flags=allow-oom
-- Removes settled applications from queue and DLQ. An entry whose arrival differs stays.
-- ARGV  1–3 are described in settled.lua  4… member, arrival (µs), …
-- Returns how many entries were removed.
local members, arrivals = {}, {}
for i = 4, #ARGV, 2 do
  members[#members + 1] = ARGV[i]
  arrivals[#arrivals + 1] = tonumber(ARGV[i + 1])
end

local function present(key)
  local found = {}
  if redis.call('EXISTS', key) == 0 then return found end
  for i, score in ipairs(redis.call('ZMSCORE', key, unpack(members))) do
    if arrivalOf(score) == arrivals[i] then found[#found + 1] = members[i] end
  end
  return found
end

local queued = present(queue)
return finish(#queued > 0 and redis.call('ZREM', queue, unpack(queued)) or 0, members, present(dlq))
