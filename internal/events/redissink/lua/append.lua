#!lua flags=allow-oom
-- Removes events from the beginning of a stream that are older than the retention, then appends events to its end: all of
-- them or none. Without events in ARGV, it only removes. It may run with full memory, since removing frees memory.
-- KEYS  1 stream
-- ARGV  1 the server that the caller knows  2 retention (ms)  3 the most entries to remove
--       4 share of maxmemory above which nothing is appended (percent)  5… events as JSON
-- Returns {code, this server as run_id:master_replid, used memory (bytes), maxmemory (bytes; 0: no limit), removed entries}.
-- The code is LOOKED: there were no events; APPENDED; CHANGED: this is another server; FULL: too much memory is used. After
-- CHANGED and FULL, nothing was appended.
local stream = KEYS[1]
local time = redis.call('TIME')
local oldest = math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[2])
local removed = redis.call('XTRIM', stream, 'MINID', '~', string.format('%.0f', oldest), 'LIMIT', ARGV[3])

local info = redis.call('INFO', 'server', 'memory', 'replication')
local function bytes(field) return tonumber(string.match(info, '\n' .. field .. ':(%d+)')) or 0 end
-- run_id changes with a restart, master_replid with a promotion: also if a server is demoted and promoted again.
local server = string.match(info, '\nrun_id:(%x+)') .. ':' .. string.match(info, '\nmaster_replid:(%x+)')
local max = bytes('maxmemory')
local used = bytes('used_memory') - bytes('mem_not_counted_for_evict') -- as Redis compares it with maxmemory
local function answer(code) return {code, server, used, max, removed} end

if #ARGV < 5 then return answer('LOOKED') end
if server ~= ARGV[1] then return answer('CHANGED') end
if max > 0 and used > max * ARGV[4] / 100 then return answer('FULL') end
for i = 5, #ARGV do redis.call('XADD', stream, '*', 'event', ARGV[i]) end
return answer('APPENDED')
