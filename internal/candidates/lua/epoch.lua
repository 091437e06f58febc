-- Shared by several scripts: the epoch of a coupon, which is the time of one server with one state of the coupon. Only
-- INFO tells whose state it is: the state alone may be that of another server, or written by anybody.
-- A caller reads EPOCH_FIELDS of the state, and passes them on in this order.
local EPOCH_FIELDS = {'run_id', 'replid', 'since', 'restored', 'accepted', 'opens'}
local MAX_AHEAD = 5000000 -- µs by which a server's clock may be behind that of the one before
local LATE = 10000000 -- µs within which every process notices another server
local NOBODY = string.rep('0', 40)

-- Returns the count that a field has; 0 if it can be none: then it was written by hand.
local function countOf(text)
  local n = tonumber(text) or 0
  return n >= 0 and n <= 9007199254740991 and n or 0
end

-- Says whose state it is. s has the values of EPOCH_FIELDS.
-- Returns the epoch '<run_id>:<since>' and since (µs) if the state is that of this server, else nil and the text of
-- INFO. The third value is a replid that the server has now: its first replica came, or it has freed its backlog.
local function current(now, s)
  local info, since = redis.call('INFO', 'server', 'replication'), tonumber(s[3]) or 0
  local function says(field, value) return string.find(info, field .. ':' .. value .. '\r\n', 1, true) end
  local byScript = s[3] == whole(since) and since > 0 and since <= now + MAX_AHEAD
  if not byScript or not s[1] or not says('run_id', s[1]) then return nil, info end
  if s[2] and says('master_replid', s[2]) then return s[1] .. ':' .. s[3], since end
  if not says('master_replid2', NOBODY) then return nil, info end
  return s[1] .. ':' .. s[3], since, string.match(info, 'master_replid:(%x+)')
end

-- Begins an epoch if the state is not that of this server. seen is the highest arrival that the caller and the journal
-- know, opens the start of the window by the coupon's row (µs; 0: unknown), and ttl that of a state without one (s).
-- Without promises before the opening, there is nobody to restore. But a pod that is late to notice a promotion may
-- accept somebody on the former server.
-- Returns the epoch, since, and whether the server has been compared with the journal.
local function begin(now, s, seen, opens, ttl)
  local epoch, since, replid = current(now, s)
  if epoch then
    if replid then redis.call('HSET', state, 'replid', replid) end
    return epoch, since, tonumber(s[4]) == since
  end
  local info = since
  local before = tonumber(s[3]) or 0
  if before > now + MAX_AHEAD then before = 0 end
  since = math.max(now, before + 1)
  local run = string.match(info, 'run_id:(%x+)')
  local quiet = now + (string.find(info, 'master_replid2:' .. NOBODY, 1, true) and 0 or LATE)
  local restored = countOf(s[5]) == 0 and seen == 0 and opens > quiet and (tonumber(s[6]) or opens) > quiet
  redis.call('HSET', state, 'run_id', run, 'replid', string.match(info, 'master_replid:(%x+)'), 'since', whole(since),
    'restored', restored and whole(since) or 0, 'left', 0)
  if redis.call('PTTL', state) < 0 then redis.call('EXPIREAT', state, expiry(now, ttl)) end
  return run .. ':' .. whole(since), since, restored
end
