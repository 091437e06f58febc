-- Puts applications that could not be settled under review: from the queue into the DLQ with their arrival, or, where
-- they stand in the DLQ already, one more attempt noted.
-- KEYS  1 queue  2 dlq  3 dlq reasons
-- ARGV  member, arrival (µs), source (Q, R, or N for one that stands in MySQL alone), reason (JSON), …
-- Returns how many were moved or noted. One that no longer stands in its source with that arrival is left alone:
-- somebody else has moved it, or a person holds it. So is one whose user has another entry under review: two promises
-- never become one.
local queue, dlq, reasons = unpack(KEYS)
local n = 0

local function stands(key, member, at)
  local score = redis.call('ZSCORE', key, member)
  return score and math.max(0, math.min(math.floor(tonumber(score)), 9007199254740991)) == tonumber(at)
end

local function retryable(member)
  local ok, reason = pcall(cjson.decode, redis.call('HGET', reasons, member) or '')
  if ok and type(reason) == 'table' and reason.retryable == true then return reason end
end

for i = 1, #ARGV, 4 do
  local member, at, source, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if source == 'R' then
    local old = stands(dlq, member, at) and retryable(member)
    if old then
      local new = cjson.decode(reason)
      if type(old.attempts) == 'number' then new.attempts = old.attempts + 1 end
      redis.call('HSET', reasons, member, cjson.encode(new))
      n = n + 1
    end
  elseif source == 'N' then
    if redis.call('ZADD', dlq, 'NX', at, member) == 1 then redis.call('HSET', reasons, member, reason) end
    if stands(dlq, member, at) then n = n + 1 end
  elseif stands(queue, member, at) and stands(dlq, member, at) then
    redis.call('ZREM', queue, member) -- the same application in two places, by somebody's hand
  elseif stands(queue, member, at) and not redis.call('ZSCORE', dlq, member) then
    redis.call('ZADD', dlq, 'NX', at, member)
    redis.call('HSET', reasons, member, reason)
    redis.call('ZREM', queue, member)
    n = n + 1
  end
end
return n
