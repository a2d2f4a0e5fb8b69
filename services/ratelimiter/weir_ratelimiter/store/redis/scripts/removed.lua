-- Buckets of limits that may be gone.

-- A bucket that is left alone, but for what is held.
local function without_held(stored, units)
  local level, parts, at, held, capacity, refill, period = unpack_row(BUCKET_ROW, stored)
  return pack_row(BUCKET_ROW, level, parts, at, max(0, held - units), capacity, refill, period)
end

-- The shape that a bucket has: that of its limit, or of its state if the limit is gone
-- (period 0); nil if there is no bucket then.
local function shape_of(plan, i, stored)
  if plan.periods[i] > 0 then
    return plan.capacities[i], plan.refills[i], plan.periods[i]
  end
  if stored then
    local _, _, _, _, capacity, refill, period = unpack_row(BUCKET_ROW, stored)
    return capacity, refill, period
  end
end
