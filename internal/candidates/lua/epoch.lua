-- Shared by several scripts: the epochs of a coupon, and its counts of accepted applications ("promises"). An epoch
-- begins when a server sees the coupon's state for the first time, and when the server has restarted, has lost counts,
-- or had its clock put back. The state has the fields run_id (the server), since (the start of the epoch, µs), and base
-- and base_twice: the parts of accepted and twice that were counted in earlier epochs. A caller passes the last epoch
-- that it has seen, as "<run_id>:<since>" or '', and the counts that it has seen in that epoch.
local EPOCH_FIELDS = {'run_id', 'since', 'accepted', 'twice', 'base', 'base_twice'}

-- Merges the counts of this server with those of the caller and of MySQL. s has the values of EPOCH_FIELDS in the
-- state, seen is {epoch, accepted, twice} of the caller, and known is {since, accepted, twice} of MySQL.
-- Returns a table with epoch, since, accepted, twice, base and changes; changes are fields and values for HSET. If the
-- caller or MySQL saw more than `base` in an earlier epoch, the difference is added: the maximum would hide a loss.
-- Counts of a later epoch are ignored: this server is no longer the primary, and its successor started with its counts.
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
  if not continues or p.epoch == seen[1] and p.accepted < tonumber(seen[2]) then -- a new epoch begins
    p.run, p.since = string.match(info, 'run_id:(%x+)'), now == p.since and now + 1 or now
    p.epoch = p.run .. ':' .. whole(p.since)
    p.changes = {'run_id', p.run}
    set('since', p.since)
    set('base', p.accepted)
    set('base_twice', p.twice)
  end
  local function lift(field, base, since, count)
    local earlier = since > 0 and since < p.since -- 0: the epoch is unknown
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
