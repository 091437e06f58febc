-- Shared by remove.lua and remove_range.lua, which have the first three arguments in common:
-- ARGV  1 set to which the users are added: issued, rejected or '' (none)  2 closes (µs)  3 ttl of the set (s)

-- Removes the reviewed members from the DLQ, and adds all members to the set. removed is how many entries were removed
-- from the queue. Returns how many were removed from queue and DLQ.
local function finish(removed, members, reviewed)
  if #reviewed > 0 then
    removed = removed + redis.call('ZREM', dlq, unpack(reviewed))
    redis.call('HDEL', reasons, unpack(reviewed))
    dlqChanged()
  end
  local set = ({issued = issued, rejected = rejected})[ARGV[1]]
  if set then
    redis.call('SADD', set, unpack(members))
    redis.call('EXPIREAT', set, expiry(math.max(clock(), ARGV[2]), ARGV[3]))
  end
  return removed
end
