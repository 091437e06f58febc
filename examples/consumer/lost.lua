-- Counts the events that were trimmed before the group read them. Each is counted once, because the script then moves the
-- group's entries-read on. KEYS: the stream. ARGV: the group. Returns the number; 0 also if Redis cannot know it.
local function fields(reply)
  local map = {}
  for i = 1, #reply, 2 do map[reply[i]] = reply[i + 1] end
  return map
end

local stream = fields(redis.call('XINFO', 'STREAM', KEYS[1]))
local trimmed = stream['entries-added'] - stream['length']
for _, reply in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = fields(reply)
  local last, read = group['last-delivered-id'], group['entries-read']
  if group['name'] == ARGV[1] then
    local lost = 0
    if read then lost = math.max(0, trimmed - read) end
    if lost > 0 or (not read and last == '0-0') then -- events before the group's first read are no loss
      redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], last, 'ENTRIESREAD', trimmed)
    end
    return lost
  end
end
return redis.error_reply('NOGROUP the stream has no such group')
