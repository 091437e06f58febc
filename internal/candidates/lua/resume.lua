#!lua flags=allow-oom
-- Lets the journal go on where it was, after the state was lost with everybody whom the journal has.
-- ARGV  1 the journal has everybody who stood at this arrival (µs) or before it
-- Returns 1 if the journal goes on from there, else 0: it reads the whole line again. It does so if somebody stands there who
-- may have been entered since.
local opens, last, journalled = unpack(redis.call('HMGET', state, 'opens', 'last', 'journalled'))
local up_to = tonumber(ARGV[1])
if not opens or up_to == 0 or (tonumber(journalled) or 0) > 0 then return 0 end
if redis.call('ZCOUNT', queue, '-inf', up_to) + redis.call('ZCOUNT', dlq, '-inf', up_to) > 0 then return 0 end
-- Newcomers stand behind it, also if the clock of this server is late.
redis.call('HSET', state, 'journalled', ARGV[1], 'last', whole(math.max(tonumber(last) or 0, up_to)))
return 1
