#!lua flags=no-writes
-- Who of those whom a pod remembers is to be put back, or was counted by two servers. A read.
-- KEYS  1 queue  2 state  3 issued  4 rejected  5 dlq
-- ARGV  1… user id, arrival (µs; 0 where the pod got no answer), …; nobody: only which epoch it is
-- Returns {epoch, then the places in ARGV's list of users, from 1}: of those who stand nowhere, or in the queue at another
-- arrival that was given later or in this epoch. The epoch is empty where none has begun on this server.
local queue, state, issued, rejected, dlq = unpack(KEYS)
local users, arrivals = {}, {}
for i = 1, #ARGV, 2 do
  users[#users + 1], arrivals[#arrivals + 1] = ARGV[i], tonumber(ARGV[i + 1])
end
local time = redis.call('TIME')
local promised = promises(time[1] * 1000000 + time[2], redis.call('HMGET', state, unpack(EPOCH_FIELDS)), {'', 0, 0}, {0, 0, 0})
if #promised.changes > 0 then return {''} end
if #users == 0 then return {promised.epoch} end

local standing = redis.call('ZMSCORE', queue, unpack(users))
local reviewed = redis.call('ZMSCORE', dlq, unpack(users))
local holding = redis.call('SMISMEMBER', issued, unpack(users))
local refused = redis.call('SMISMEMBER', rejected, unpack(users))
local missing = {promised.epoch}
for i in ipairs(users) do
  local elsewhere = reviewed[i] or holding[i] == 1 or refused[i] == 1
  local stands = standing[i] and tonumber(standing[i])
  if not elsewhere and stands ~= arrivals[i] and (not stands or stands > arrivals[i] or stands >= promised.since) then
    missing[#missing + 1] = i
  end
end
return missing
