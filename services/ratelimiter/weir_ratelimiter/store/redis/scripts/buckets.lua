-- A bucket is stored as level, parts, moment, capacity, refill, period, held: the shape under
-- which its level was reached, and what open reservations hold. One that is not there is full;
-- `purge` forgets those that have been full for long.
-- The arithmetic is that of weir_core.bucket.

local function refilled(level, parts, at, capacity, refill, period, now)
  local elapsed = now - at
  if elapsed > 0 then
    local units, rest = divided(elapsed, refill, parts, period)
    if units >= capacity - level then
      return capacity, 0, now
    end
    return level + units, rest, now
  elseif elapsed < -period then
    return level, parts, now
  end
  return level, parts, at
end

local function credited(level, parts, amount, capacity)
  if level + amount >= capacity then
    return capacity, 0
  end
  return level + amount, parts
end

-- Debt stops at -2^53: further down single units would be lost.
local function debited(level, amount)
  return max(level - amount, -MOST)
end

-- Level, parts, moment and held at `now`, in the present shape.
local function bucket_at(stored, capacity, refill, period, now)
  if not stored then
    return capacity, 0, now, 0
  end
  local level, parts, at, old_capacity, old_refill, old_period, held = unpack_all(stored)
  level, parts, at = refilled(level, parts, at, old_capacity, old_refill, old_period, now)
  if capacity ~= old_capacity or refill ~= old_refill or period ~= old_period then
    parts = divided(parts, period, 0, old_period)
    level, parts = credited(level, parts, max(0, capacity - old_capacity), capacity)
  end
  return level, parts, at, held
end

-- A bucket that is left alone, but for what is held.
local function without_held(stored, units)
  local level, parts, at, capacity, refill, period, held = unpack_all(stored)
  return pack(level, parts, at, capacity, refill, period, max(0, held - units))
end

-- The shape that a bucket has: that of its limit, or of its state if the limit is gone
-- (period 0); nil if there is no bucket then.
local function shape_of(stored, capacity, refill, period)
  if period > 0 then
    return capacity, refill, period
  end
  if stored then
    local _, _, _, old_capacity, old_refill, old_period = unpack_all(stored)
    return old_capacity, old_refill, old_period
  end
end
