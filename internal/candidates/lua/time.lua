#!lua flags=no-writes
-- Returns the time on the shard's clock (µs).
return clock()
