#!lua flags=no-writes
-- Finds the users for whom restore.lua has work to do. It only reads.
-- ARGV  1… user id, arrival (µs; 0: no reply came), counted (1: another server may have counted the application), …
-- Returns {index, …, {epoch}}. An index is the number of a user in ARGV, starting at 1. A user is listed who is in no
-- key of the coupon, who is in the queue at a later arrival, or who is in the queue and was counted by another server
-- and this one. The epoch is '' if no epoch has begun on this server.
local users, arrivals, counted = {}, {}, {}
for i = 1, #ARGV, 3 do
  local n = #users + 1
  users[n], arrivals[n], counted[n] = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2] == '1'
end
local promised = promises(clock(), redis.call('HMGET', state, unpack(EPOCH_FIELDS)), {'', 0, 0}, {0, 0, 0})
local epoch = #promised.changes > 0 and '' or promised.epoch
if #users == 0 then return {{epoch}} end

local queued = redis.call('ZMSCORE', queue, unpack(users))
local reviewed = redis.call('ZMSCORE', dlq, unpack(users))
local found = {}
for i = 1, #users do
  local at = queued[i] and tonumber(queued[i])
  if at ~= arrivals[i] and (not at or at > arrivals[i] or counted[i] and at >= promised.since) and not reviewed[i]
    and redis.call('SISMEMBER', issued, users[i]) == 0 and redis.call('SISMEMBER', rejected, users[i]) == 0 then
    found[#found + 1] = i
  end
end
found[#found + 1] = {epoch}
return found
