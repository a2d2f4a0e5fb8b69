-- Announces a ratelimiter, and counts those that did so within the last seconds.

local LIVES_MS = 5000

local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - LIVES_MS))
return { call('ZCARD', KEYS[1]) }
