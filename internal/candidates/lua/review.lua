#!lua flags=allow-oom
-- Records failed applications in the DLQ: moves them from the queue, adds those that only MySQL has, and counts one
-- more attempt of those that are in the DLQ already.
-- ARGV  1 number of refusals of the applicant's row after which an entry is held
--       2 '<id of the run>:<its time (µs)>': MySQL gives an id again if it has lost the run
--       3… member, arrival (µs), source, reason (JSON), …
--       Sources: Q the queue, R the DLQ, K the DLQ (the old cause and note stay), N only MySQL
-- Returns how many applications were recorded. An application is skipped if its source does not have it at that
-- arrival, if it is held, or if its user has another DLQ entry, since two applications must not become one. refused = 1
-- in a reason means that MySQL refused the applicant's row. The script adds up the refusals, and keeps the last night.
-- Field moved:<ARGV 2> of the state counts what the run has recorded here; a repeated call adds nothing of Q and N.
local maxRefusals, run = tonumber(ARGV[1]), ARGV[2]
local n, anew = 0, 0

local function has(key, member, at) return arrivalOf(redis.call('ZSCORE', key, member)) == tonumber(at) end

local function retryable(member)
  local ok, reason = pcall(cjson.decode, redis.call('HGET', reasons, member) or '')
  if ok and type(reason) == 'table' and reason.retryable == true then return reason end
end

local function attempt(r) return {at = r.at, run = r.run, cause = r.cause, note = r.note} end

-- Returns the reason to store. It continues the counts, the first failure and the last five attempts of the old reason.
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
    new.retryable = new.retryable and new.refused < maxRefusals
  elseif before > 0 then
    new.refused = before
  end
  if old then new.night = new.night or old.night end
  if keep then new.cause, new.note = old.cause, old.note end
  return cjson.encode(new)
end

for i = 3, #ARGV, 4 do
  local member, at, source, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if source == 'R' or source == 'K' then
    local old = has(dlq, member, at) and retryable(member)
    if old then
      redis.call('HSET', reasons, member, counted(reason, old, source == 'K'))
      n, anew = n + 1, anew + 1
    end
  elseif source == 'N' then
    local new = cjson.decode(reason)
    -- The DLQ may have the entry already: from a run that died before its commit, or from an earlier call by this run.
    local old = has(dlq, member, at) and retryable(member)
    if redis.call('ZADD', dlq, 'NX', at, member) == 1 then
      redis.call('HSET', reasons, member, counted(reason))
      anew = anew + 1
    elseif old and (old.run ~= new.run or old.at ~= new.at) then
      redis.call('HSET', reasons, member, counted(reason, old))
      anew = anew + 1
    end
    if has(dlq, member, at) then n = n + 1 end
  elseif has(queue, member, at) and has(dlq, member, at) then
    redis.call('ZREM', queue, member) -- somebody wrote the application into both keys by hand
  elseif has(queue, member, at) and not redis.call('ZSCORE', dlq, member) then
    redis.call('ZREM', queue, member)
    redis.call('ZADD', dlq, 'NX', at, member)
    redis.call('HSET', reasons, member, counted(reason))
    n, anew = n + 1, anew + 1
  end
end
if n > 0 then dlqChanged() end
if anew > 0 and redis.call('EXISTS', state) == 1 then
  local moved = tonumber(redis.call('HGET', state, 'moved:' .. run)) or 0
  redis.call('HSET', state, 'moved:' .. run, whole(moved + anew))
end
return n
