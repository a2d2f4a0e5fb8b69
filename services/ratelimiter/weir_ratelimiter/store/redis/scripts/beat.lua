-- Announces a ratelimiter, and counts those that did so within the last seconds.

local LIVES_MS = 5000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - LIVES_MS))
return { redis.call('ZCARD', KEYS[1]) }
