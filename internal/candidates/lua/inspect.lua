#!lua flags=no-writes
-- Returns a coupon's window, when its keys expire, and whether DLQ entries have reasons. It only reads.
-- ARGV  1 how many DLQ entries are checked for a readable reason, starting with the lowest arrival
-- Returns {now, ms until the queue expires or -1, number of DLQ entries, number of stored reasons,
--          number of checked entries without a readable reason, ms until a key of the DLQ expires or -1,
--          {opens, closes, status, version, line limit}}. A missing text is ''.
local s = redis.call('HMGET', state, 'opens', 'closes', 'status', 'version', 'line_limit')

local function life(key) return math.max(-1, redis.call('PTTL', key)) end

local expires = life(dlq)
local other = life(reasons)
if expires < 0 or other >= 0 and other < expires then expires = other end

local unexplained = 0
local members = redis.call('ZRANGE', dlq, 0, ARGV[1] - 1)
if #members > 0 then
  for _, reason in ipairs(redis.call('HMGET', reasons, unpack(members))) do
    local ok, read = pcall(cjson.decode, reason or '')
    if not ok or type(read) ~= 'table' then unexplained = unexplained + 1 end
  end
end
return {clock(), life(queue), redis.call('ZCARD', dlq), redis.call('HLEN', reasons), unexplained, expires,
  {s[1] or '', s[2] or '', s[3] or '', s[4] or '', s[5] or ''}}
