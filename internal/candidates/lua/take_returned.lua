#!lua flags=allow-oom
-- Removes from returned whom a restore has handled. Who was handed over again meanwhile, at another arrival, stays.
-- ARGV  member, arrival (µs), …
-- Returns how many were removed.
local n = 0
for i = 1, #ARGV, 2 do
  if arrivalOf(redis.call('ZSCORE', returned, ARGV[i])) == tonumber(ARGV[i + 1]) then
    n = n + redis.call('ZREM', returned, ARGV[i])
  end
end
return n
