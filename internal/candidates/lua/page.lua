#!lua flags=no-writes
-- Returns the next page of applications before a cutoff. Queue and DLQ are merged by (arrival, member). It only reads.
-- ARGV  1 cutoff (µs, exclusive)  2 limit of queue entries; 0: the queue is not read  3 limit of DLQ entries, likewise
--       4 score and 5 member of the cursor; the score '' stands for the start
--       6 cutoff as a text, in the form of `night` in DLQ reasons
-- Returns {score, member, more, epoch, sources, {member, score, …}}. Score and member are the next cursor. more is 1 if
-- further entries may follow, else 0. epoch is '' if the server is new to the coupon. sources has one letter per entry:
--   Q  the entry is in the queue
--   R  the entry is in the DLQ and retryable
--   B  like R, and MySQL has refused the applicant's row before
--   T  like B, and a nightly run with this cutoff has tried the entry already
--   H  the entry is in the DLQ and held for an operator
local cutoff = tonumber(ARGV[1])
local after_score, after_member, night = ARGV[4], ARGV[5], ARGV[6]
local epoch = current(clock(), redis.call('HMGET', state, unpack(EPOCH_FIELDS))) or ''

-- Redis orders members byte by byte. The operator < cannot be used, because in Lua it depends on the locale.
local function precedes(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- Returns the rank of the first entry after the cursor. It uses a search, because the cursor's own entry may be gone.
local function start(key)
  if after_score == '' then return 0 end
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. after_score)
  local high = redis.call('ZCOUNT', key, '-inf', after_score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if precedes(after_member, redis.call('ZRANGE', key, middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- Returns {member, score, …}, how many of these entries are below the cutoff, and whether the limit may hide more.
local function slice(key, limit)
  if limit == 0 then return {}, 0, false end
  local from = start(key)
  local entries = redis.call('ZRANGE', key, from, from + limit - 1, 'WITHSCORES')
  local n = #entries / 2
  while n > 0 and tonumber(entries[2 * n]) >= cutoff do n = n - 1 end
  return entries, n, n == limit
end

local waiting, waiting_n, waiting_cut = slice(queue, tonumber(ARGV[2]))
local reviewed, reviewed_n, reviewed_cut = slice(dlq, tonumber(ARGV[3]))

local more = (waiting_cut or reviewed_cut) and '1' or '0'
local apart = reviewed_n == 0 or waiting_cut and tonumber(waiting[2 * waiting_n]) < tonumber(reviewed[2])
if waiting_n > 0 and apart then -- the usual case: a page of queue entries only
  for i = #waiting, 2 * waiting_n + 1, -1 do waiting[i] = nil end
  return {waiting[2 * waiting_n], waiting[2 * waiting_n - 1], more, epoch, string.rep('Q', waiting_n), waiting}
end

local reviewed_reasons = {}
if reviewed_n > 0 then
  local members = {}
  for i = 1, reviewed_n do members[i] = reviewed[2 * i - 1] end
  reviewed_reasons = redis.call('HMGET', reasons, unpack(members))
end

local function dlq_source(i)
  if not reviewed_reasons[i] then return 'H' end
  local ok, reason = pcall(cjson.decode, reviewed_reasons[i])
  if not ok or type(reason) ~= 'table' or reason.retryable ~= true then return 'H' end
  if reason.night == night then return 'T' end
  return type(reason.refused) == 'number' and 'B' or 'R'
end

local page, sources = {}, {}
local w, h = 1, 1
while w <= waiting_n or h <= reviewed_n do
  -- Because of the limit, this key may have unread entries that precede the next entry of the other key.
  if (waiting_cut and w > waiting_n) or (reviewed_cut and h > reviewed_n) then break end
  local take_waiting = w <= waiting_n
  if take_waiting and h <= reviewed_n then
    local a, b = tonumber(waiting[2 * w]), tonumber(reviewed[2 * h])
    take_waiting = a < b or (a == b and precedes(waiting[2 * w - 1], reviewed[2 * h - 1]))
  end
  local entries, i, source = waiting, w, 'Q'
  if take_waiting then
    w = w + 1
  else
    entries, i, source = reviewed, h, dlq_source(h)
    h = h + 1
  end
  page[#page + 1] = entries[2 * i - 1]
  page[#page + 1] = entries[2 * i]
  sources[#sources + 1] = source
end
return {page[#page] or after_score, page[#page - 1] or after_member, more, epoch,
  table.concat(sources), page}
