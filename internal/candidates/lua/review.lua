-- Puts applications that could not be settled under review: from the queue into the DLQ with their arrival, or, where
-- they stand in the DLQ already, one more attempt noted.
-- KEYS  1 queue  2 dlq  3 dlq reasons
-- ARGV  member, arrival (µs), reason (JSON), …
-- Returns how many were moved or noted; one that no longer stands with that arrival is left alone, and so is one in
-- the queue whose user has an older entry under review: two promises never become one.
local queue, dlq, reasons = unpack(KEYS)
local n = 0

local function stands(key, member, at)
  local score = redis.call('ZSCORE', key, member)
  return score and math.max(0, math.min(math.floor(tonumber(score)), 9007199254740991)) == tonumber(at)
end

for i = 1, #ARGV, 3 do
  local member, at, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if stands(dlq, member, at) then
    local ok, old = pcall(cjson.decode, redis.call('HGET', reasons, member) or '')
    local new = cjson.decode(reason)
    if ok and type(old) == 'table' and type(old.attempts) == 'number' then new.attempts = old.attempts + 1 end
    redis.call('HSET', reasons, member, cjson.encode(new))
    n = n + 1
  elseif stands(queue, member, at) and not redis.call('ZSCORE', dlq, member) then
    redis.call('ZADD', dlq, 'NX', at, member)
    redis.call('HSET', reasons, member, reason)
    redis.call('ZREM', queue, member)
    n = n + 1
  end
end
return n
