#!lua flags=allow-oom
-- Removes settled applications from queue and DLQ. A queue entry at an earlier arrival is the same application: a restore
-- has moved it forward. Any other entry stays: it is another application.
-- ARGV  1–3 are described in settled.lua  4… member, arrival (µs), …
-- Returns how many entries were removed.
local members, arrivals = {}, {}
for i = 4, #ARGV, 2 do
  members[#members + 1] = ARGV[i]
  arrivals[#arrivals + 1] = ARGV[i + 1]
end

local function present(key, isSame)
  local found = {}
  if redis.call('EXISTS', key) == 0 then return found end
  for i, score in ipairs(redis.call('ZMSCORE', key, unpack(members))) do
    if score and isSame(arrivalOf(score), tonumber(arrivals[i])) then found[#found + 1] = members[i] end
  end
  return found
end

local queued = present(queue, function(at, settled) return at <= settled end)
local reviewed = present(dlq, function(at, settled) return at == settled end)
return finish(#queued > 0 and redis.call('ZREM', queue, unpack(queued)) or 0, members, arrivals, reviewed)
