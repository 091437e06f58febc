#!lua flags=allow-oom
-- Removes events from the beginning of a stream that are older than the retention, then appends events to its end: all of
-- them or none. Without events in ARGV, it only removes. It may run with full memory, since removing frees memory.
-- KEYS  1 stream
-- ARGV  1 the server that the caller knows  2 the last event that the caller knows to be in the stream; empty: none
--       3 retention (ms); 0: nothing is removed, and no event is too old to be in the stream
--       4 the most entries to remove  5 share of maxmemory above which nothing is appended (percent)
--       6… events as JSON
-- Returns {code, this server and stream as run_id:master_replid:SHA-1 of the key, used memory (bytes), maxmemory (bytes; 0: no
-- limit), removed entries, last, lacks}. The code is LOOKED: there were no events; APPENDED; CHANGED: this is another server or stream, or it lacks
-- events; FULL: too much memory is used. After CHANGED and FULL, nothing was appended.
-- last is the id of the last event that was appended or, without one, that the caller knows and the stream still has to have;
-- empty: none. lacks is how long ago (ms) the stream last had everything; 0: it does not lack the event that the caller knows.
local stream, known = KEYS[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local retention = tonumber(ARGV[3])
local oldest, removed = 0, 0
if retention > 0 then
  oldest = math.max(0, now - retention)
  removed = redis.call('XTRIM', stream, 'MINID', '~', string.format('%.0f', oldest), 'LIMIT', ARGV[4])
end

local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end
local function below(a, b)
  local ams, aseq = parts(a)
  local bms, bseq = parts(b)
  return ams < bms or ams == bms and aseq < bseq
end

-- What XINFO says of a stream that is not there.
local fields = {['last-generated-id'] = '0-0', ['max-deleted-entry-id'] = '0-0'}
local reply = redis.pcall('XINFO', 'STREAM', stream)
if not reply.err then
  for i = 1, #reply, 2 do fields[reply[i]] = reply[i + 1] end
elseif not string.find(reply.err, 'no such key', 1, true) then
  return reply
end

if known ~= '' and parts(known) < oldest then known = '' end -- the stream need not have it any more
-- With '-', which finds nothing, a user without the right to read fails at its first call.
local id = known == '' and '-' or known
local found = #redis.call('XRANGE', stream, id, id) > 0
local last, lacks = known, 0
-- Somebody who deletes single entries (XDEL) does so on purpose. An emptied, trimmed, older or other stream has no such trace.
-- Trimming keeps the trace: if known or a later entry was deleted before, trimming of everything is not noticed.
if known ~= '' and not found and below(fields['max-deleted-entry-id'], known) then
  local newest, since = fields['last-generated-id'], oldest
  if below(newest, known) then since = math.max(since, (parts(newest))) end -- an older copy, which has everything up to its end
  last, lacks = '', math.max(1, now - since)
end

local info = redis.call('INFO', 'server', 'memory', 'replication')
local function bytes(field) return tonumber(string.match(info, '\n' .. field .. ':(%d+)')) or 0 end
-- run_id changes with a restart, master_replid with a promotion: also if a server is demoted and promoted again. The key may be
-- long, or no text.
local server = string.match(info, '\nrun_id:(%x+)') .. ':' .. string.match(info, '\nmaster_replid:(%x+)') .. ':' .. redis.sha1hex(stream)
local max = bytes('maxmemory')
local used = bytes('used_memory') - bytes('mem_not_counted_for_evict') -- as Redis compares it with maxmemory
local function answer(code) return {code, server, used, max, removed, last, lacks} end

if #ARGV < 6 then return answer('LOOKED') end
if server ~= ARGV[1] or lacks > 0 then return answer('CHANGED') end
if max > 0 and used > max * ARGV[5] / 100 then return answer('FULL') end
for i = 6, #ARGV do last = redis.call('XADD', stream, '*', 'event', ARGV[i]) end
return answer('APPENDED')
