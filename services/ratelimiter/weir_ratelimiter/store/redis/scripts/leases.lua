-- Leases of a limit: a sorted set of its holders by end, and beside the buckets its summary:
-- number of leases, sum of their starts, and a moment before which none of them ends. Until then
-- the summary alone tells how many places are taken.

local SUMMARY_ROW, LAPSES_ROW, SUMMARY_BYTES = '<ddd', '<dd', 24

-- Starts count from here, or the sum of a few thousand would pass 2^53.
local STARTS_FROM = 1.7e12

local function summary_of(stored)
  if not stored then
    return 0, 0, 0
  end
  return unpack_row(SUMMARY_ROW, stored)
end

local function holder_of(id, acquired)
  return id .. ' ' .. whole(acquired)
end

-- Places taken at `now`, and when the next of them lapses.
local function places(set, number, earliest, now)
  if number == 0 or now < earliest then
    return number, earliest
  end
  local bound = string.format('(%.0f', now)
  local next_one = call('ZRANGEBYSCORE', set, bound, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if not next_one[1] then
    return 0, 0
  end
  return call('ZCOUNT', set, bound, '+inf'), tonumber(next_one[2])
end

-- What a caller is told of a lease set: its summary, and if some of its leases may have lapsed,
-- places taken and the next lapse.
local function lease_view(set, stored, now)
  local number, _, earliest = summary_of(stored)
  if number == 0 or now < earliest then
    return stored
  end
  return stored .. pack_row(LAPSES_ROW, places(set, number, earliest, now))
end

-- Whoever lapsed loses its place to a new holder, for ever: the clock may go back.
local function without_lapsed(set, number, starts, earliest, now)
  local gone = call('ZRANGEBYSCORE', set, '-inf', now)
  for _, holder in ipairs(gone) do
    number, starts = number - 1, starts - (string.match(holder, '%d+$') - STARTS_FROM)
  end
  if #gone > 0 then
    call('ZREMRANGEBYSCORE', set, '-inf', now)
  end
  local first = call('ZRANGE', set, 0, 0, 'WITHSCORES')
  return number, starts, tonumber(first[2] or 0)
end

-- Takes a place; the summary afterwards.
local function hold_place(set, stored, id, now, expires)
  local number, starts, earliest = summary_of(stored)
  if number > 0 and now >= earliest then
    number, starts, earliest = without_lapsed(set, number, starts, earliest, now)
  end
  call('ZADD', set, expires, holder_of(id, now))
  earliest = number == 0 and expires or min(earliest, expires)
  return pack_row(SUMMARY_ROW, number + 1, starts + now - STARTS_FROM, earliest)
end

-- Gives a place back, if it was not lost before; the summary afterwards.
local function free_place(set, stored, id, acquired)
  local number, starts, earliest = summary_of(stored)
  if call('ZREM', set, holder_of(id, acquired)) == 1 then
    number, starts = number - 1, starts - (acquired - STARTS_FROM)
  end
  return pack_row(SUMMARY_ROW, number, starts, earliest)
end

-- The summary when one of the leases ends at `expires` already.
local function sooner(stored, expires)
  local number, starts, earliest = summary_of(stored)
  return pack_row(SUMMARY_ROW, number, starts, min(earliest, expires))
end
