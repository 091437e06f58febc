-- Shared by several scripts: the epoch of the coupon's promises, and their counts.
-- An epoch begins when a server sees the coupon's state for the first time: initially, after a failover, a restart or a loss of
-- the state, and after its clock was put back. The state keeps `run_id`, the server; `since`, the beginning (µs); and `base` and
-- `base_twice`, the part of `accepted` and `twice` that earlier epochs counted.
-- A caller passes the epoch that it has seen last, "<run_id>:<since>" or '', and the counts that it has seen in it.
local EPOCH_FIELDS = {'run_id', 'since', 'accepted', 'twice', 'base', 'base_twice'}

-- promises takes EPOCH_FIELDS of the state, {epoch, accepted, twice} of the caller and {since, accepted, twice} of MySQL.
-- Returns {epoch, since, accepted, twice, base, changes}; changes are pairs for HSET.
-- Counts of an earlier epoch add to those of this one: the maximum of both would hide a loss. Counts of a later epoch are
-- ignored: this server is no longer the primary, and the later one began with its counts.
local function promises(now, s, seen, known)
  local p = {run = s[1], since = tonumber(s[2]), accepted = tonumber(s[3]) or 0, twice = tonumber(s[4]) or 0,
    base = tonumber(s[5]) or 0, base_twice = tonumber(s[6]) or 0, changes = {}}
  local function set(field, value)
    p[field] = value
    p.changes[#p.changes + 1], p.changes[#p.changes + 2] = field, whole(value)
  end

  local info = redis.call('INFO', 'server')
  local continues = p.run and p.since and p.since <= now + 5000000 and string.find(info, 'run_id:' .. p.run, 1, true)
  p.epoch = continues and p.run .. ':' .. whole(p.since)
  if not continues or p.epoch == seen[1] and p.accepted < tonumber(seen[2]) then -- the server has lost counts
    p.run, p.since = string.match(info, 'run_id:(%x+)'), now == p.since and now + 1 or now
    p.epoch = p.run .. ':' .. whole(p.since)
    p.changes = {'run_id', p.run}
    set('since', p.since)
    set('base', p.accepted)
    set('base_twice', p.twice)
  end
  local function lift(field, base, since, count)
    local earlier = since > 0 and since < p.since -- 0: unknown
    local more = count - (earlier and p[base] or p[field])
    if more <= 0 or since > p.since then return end
    set(field, p[field] + more)
    set(base, p[base] + more)
  end
  local since = tonumber(string.match(seen[1], ':(%d+)$') or 0)
  lift('accepted', 'base', since, seen[2])
  lift('twice', 'base_twice', since, seen[3])
  since = tonumber(known[1])
  lift('accepted', 'base', since, known[2])
  lift('twice', 'base_twice', since, known[3])
  return p
end
