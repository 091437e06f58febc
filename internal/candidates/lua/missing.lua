#!lua flags=no-writes
-- Finds the answers of a process that Restore has to look at. A read.
-- ARGV  1… user id, arrival (µs; 0: no reply came), counted (1 or 0), …; none: only the epoch is read
-- Returns {indexes of users from 1, …, {epoch}}: users who are in no key of the coupon, or in the queue at a later arrival, or
-- counted there by another server and by this one. The epoch is empty if none has begun on this server.
local users, arrivals, counted = {}, {}, {}
for i = 1, #ARGV, 3 do
  local n = #users + 1
  users[n], arrivals[n], counted[n] = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2] == '1'
end
local promised = promises(clock(), redis.call('HMGET', state, unpack(EPOCH_FIELDS)), {'', 0, 0}, {0, 0, 0})
if #promised.changes > 0 then return {{''}} end
if #users == 0 then return {{promised.epoch}} end

local queued = redis.call('ZMSCORE', queue, unpack(users))
local reviewed = redis.call('ZMSCORE', dlq, unpack(users))
local isIssued = redis.call('SMISMEMBER', issued, unpack(users))
local isRejected = redis.call('SMISMEMBER', rejected, unpack(users))
local found = {}
for i = 1, #users do
  local elsewhere = reviewed[i] or isIssued[i] == 1 or isRejected[i] == 1
  local at = queued[i] and tonumber(queued[i])
  if not elsewhere and at ~= arrivals[i] and (not at or at > arrivals[i] or counted[i] and at >= promised.since) then
    found[#found + 1] = i
  end
end
found[#found + 1] = {promised.epoch}
return found
