-- Buckets of limits that may be gone.

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
