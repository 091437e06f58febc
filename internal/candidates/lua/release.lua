#!lua flags=allow-oom
-- Makes held DLQ entries retryable. An entry whose arrival differs is skipped.
-- ARGV  member, arrival (µs), …
-- Returns how many entries were not skipped.
local n = 0
for i = 1, #ARGV, 2 do
  local member = ARGV[i]
  if arrivalOf(redis.call('ZSCORE', dlq, member)) == tonumber(ARGV[i + 1]) then
    local ok, reason = pcall(cjson.decode, redis.call('HGET', reasons, member) or '')
    if not ok or type(reason) ~= 'table' then reason = {cause = 'UNKNOWN', attempts = 0} end
    reason.retryable = true
    redis.call('HSET', reasons, member, cjson.encode(reason))
    n = n + 1
  end
end
if n > 0 then dlqChanged() end
return n
