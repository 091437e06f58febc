-- Shared by remove.lua and remove_range.lua, whose ARGV begin with
-- ARGV  1 set to add the users to: issued, rejected or ''  2 closes (µs)  3 ttl of the set (s)

-- Removes members from the DLQ, too, and adds all members to the set. Returns how many entries were removed.
local function finish(removed, members, reviewed)
  if #reviewed > 0 then
    removed = removed + redis.call('ZREM', dlq, unpack(reviewed))
    redis.call('HDEL', reasons, unpack(reviewed))
  end
  local set = ({issued = issued, rejected = rejected})[ARGV[1]]
  if set then
    redis.call('SADD', set, unpack(members))
    redis.call('EXPIREAT', set, expiry(math.max(clock(), ARGV[2]), ARGV[3]))
  end
  return removed
end
