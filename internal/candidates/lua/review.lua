#!lua flags=allow-oom
-- Puts applications that could not be settled under review: from the queue into the DLQ with their arrival, or, where
-- they stand in the DLQ already, one more attempt noted.
-- KEYS  1 queue  2 dlq  3 dlq reasons
-- ARGV  1 how often a row may be refused before a person must decide
--       2… member, arrival (µs), source (Q, R for one that stands in the DLQ, K for one there that keeps why, or N for
--       one that stands in MySQL alone), reason (JSON), …
-- Returns how many were moved or noted. One that no longer stands in its source with that arrival is left alone:
-- somebody else has moved it, or a person holds it. So is one whose user has another entry under review: two promises
-- never become one. A reason with refused = 1 says that the applicant's own row was refused: these are counted, and the
-- last night that tried is kept.
local queue, dlq, reasons = unpack(KEYS)
local most = tonumber(ARGV[1])
local n = 0

local function stands(key, member, at)
  local score = redis.call('ZSCORE', key, member)
  return score and math.max(0, math.min(math.floor(tonumber(score)), 9007199254740991)) == tonumber(at)
end

local function retryable(member)
  local ok, reason = pcall(cjson.decode, redis.call('HGET', reasons, member) or '')
  if ok and type(reason) == 'table' and reason.retryable == true then return reason end
end

local function attempt(r) return {at = r.at, run = r.run, cause = r.cause, message = r.message} end

-- The reason to keep, told what was counted before, since when, and the last five attempts.
local function counted(reason, old, keep)
  if not old and not string.find(reason, '"refused":', 1, true) then return reason end
  local new = cjson.decode(reason)
  if old and type(old.attempts) == 'number' then new.attempts = old.attempts + 1 end
  if old then
    new.since = old.since or old.at
    new.tried = type(old.tried) == 'table' and old.tried or {attempt(old)}
    table.insert(new.tried, attempt(new))
    while #new.tried > 5 do table.remove(new.tried, 1) end
  end
  local before = old and type(old.refused) == 'number' and old.refused or 0
  if new.refused then
    new.refused = before + new.refused
    new.retryable = new.retryable and new.refused < most
  elseif before > 0 then
    new.refused = before
  end
  if old then new.night = new.night or old.night end
  if keep then new.cause, new.message = old.cause, old.message end
  return cjson.encode(new)
end

for i = 2, #ARGV, 4 do
  local member, at, source, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if source == 'R' or source == 'K' then
    local old = stands(dlq, member, at) and retryable(member)
    if old then
      redis.call('HSET', reasons, member, counted(reason, old, source == 'K'))
      n = n + 1
    end
  elseif source == 'N' then
    -- One that stands there already was put there by a run that died before its commit, or is put there by this run again.
    local old = stands(dlq, member, at) and retryable(member)
    if redis.call('ZADD', dlq, 'NX', at, member) == 1 then
      redis.call('HSET', reasons, member, counted(reason))
    elseif old and old.run ~= cjson.decode(reason).run then
      redis.call('HSET', reasons, member, counted(reason, old))
    end
    if stands(dlq, member, at) then n = n + 1 end
  elseif stands(queue, member, at) and stands(dlq, member, at) then
    redis.call('ZREM', queue, member) -- the same application in two places, by somebody's hand
  elseif stands(queue, member, at) and not redis.call('ZSCORE', dlq, member) then
    redis.call('ZREM', queue, member)
    redis.call('ZADD', dlq, 'NX', at, member)
    redis.call('HSET', reasons, member, counted(reason))
    n = n + 1
  end
end
return n
