-- Shared by several scripts: the epoch of the coupon's promises, and their counts.
-- An epoch begins when a server sees the coupon's state for the first time: initially, after a failover, a restart or a loss of
-- the state, and after its clock was put back. The state keeps `run_id`, the server; `since`, the beginning (µs); and `base` and
-- `base_twice`, the part of `accepted` and `twice` that earlier epochs counted.
-- A caller names the epoch that it knows, "<run_id>:<since>" or '', and the counts that it has seen in it.
local EPOCH_FIELDS = {'run_id', 'since', 'accepted', 'twice', 'base', 'base_twice'}

-- promises takes EPOCH_FIELDS of the state, {epoch, accepted, twice} of the caller and {since, accepted, twice} of MySQL.
-- Returns {epoch, since, accepted, twice, base, changes}; changes are pairs for HSET.
-- Counts of an earlier epoch add to those of this one: the maximum of both would hide a loss. Counts of a later epoch are
-- ignored: this server is no longer the primary, and the later one began with its counts.
local function promises(now, s, seen, known)
  local p = {run = s[1], since = tonumber(s[2]), accepted = tonumber(s[3]) or 0, twice = tonumber(s[4]) or 0,
    base = tonumber(s[5]) or 0, baseTwice = tonumber(s[6]) or 0, changes = {}}
  local function set(field, value)
    p.changes[#p.changes + 1], p.changes[#p.changes + 2] = field, string.format('%.0f', value)
  end

  local info = redis.call('INFO', 'server')
  local continues = p.run and p.since and p.since <= now + 5000000 and string.find(info, 'run_id:' .. p.run, 1, true)
  p.epoch = continues and p.run .. ':' .. string.format('%.0f', p.since)
  if not continues or p.epoch == seen[1] and p.accepted < tonumber(seen[2]) then -- the server has lost counts
    p.run, p.since = string.match(info, 'run_id:(%x+)'), now == p.since and now + 1 or now
    p.epoch = p.run .. ':' .. string.format('%.0f', p.since)
    p.base, p.baseTwice = p.accepted, p.twice
    p.changes = {'run_id', p.run}
    set('since', p.since)
    set('base', p.base)
    set('base_twice', p.baseTwice)
  end
  local function lift(since, accepted, twice)
    if since > p.since then return end
    local earlier = since > 0 and since < p.since -- 0: unknown
    local more = accepted - (earlier and p.base or p.accepted)
    if more > 0 then
      p.accepted, p.base = p.accepted + more, p.base + more
      set('accepted', p.accepted)
      set('base', p.base)
    end
    more = twice - (earlier and p.baseTwice or p.twice)
    if more > 0 then
      p.twice, p.baseTwice = p.twice + more, p.baseTwice + more
      set('twice', p.twice)
      set('base_twice', p.baseTwice)
    end
  end
  lift(tonumber(string.match(seen[1], ':(%d+)$') or 0), tonumber(seen[2]), tonumber(seen[3]))
  lift(tonumber(known[1]), tonumber(known[2]), tonumber(known[3]))
  return p
end
