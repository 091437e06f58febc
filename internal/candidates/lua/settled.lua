-- Shared by remove.lua and remove_range.lua, which have the first three arguments in common:
-- ARGV  1 where the users are marked: issued, rejected or '' (nowhere)  2 closes (µs)  3 ttl of the mark (s)

-- Removes the reviewed members from the DLQ, and marks all members. arrivals (µs) are those of their coupons; 0: given
-- by hand, which never replaces another arrival. removed is how many entries were removed from the queue. Returns how
-- many were removed from queue and DLQ.
local function finish(removed, members, arrivals, reviewed)
  if #reviewed > 0 then
    removed = removed + redis.call('ZREM', dlq, unpack(reviewed))
    redis.call('HDEL', reasons, unpack(reviewed))
    dlqChanged()
  end
  local key = ({issued = issued, rejected = rejected})[ARGV[1]]
  if not key then return removed end
  if key == rejected then
    redis.call('SADD', rejected, unpack(members))
  else
    local byRun, byHand = {}, {}
    for i, member in ipairs(members) do
      local into = tonumber(arrivals[i]) > 0 and byRun or byHand
      into[#into + 1], into[#into + 2] = arrivals[i], member
    end
    if #byRun > 0 then redis.call('ZADD', issued, unpack(byRun)) end
    if #byHand > 0 then redis.call('ZADD', issued, 'NX', unpack(byHand)) end
  end
  redis.call('EXPIREAT', key, expiry(math.max(clock(), ARGV[2]), ARGV[3]))
  return removed
end
