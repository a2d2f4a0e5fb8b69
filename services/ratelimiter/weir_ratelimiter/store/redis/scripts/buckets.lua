-- A bucket is stored as level, parts, moment, held, capacity, refill, period: what open
-- reservations hold, and the shape under which the level was reached. One that is not there is
-- full. The arithmetic is that of weir_core.bucket.

local BUCKET_ROW = '<ddddddd'

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
  local level, parts, at, held, old_capacity, old_refill, old_period =
    unpack_row(BUCKET_ROW, stored)
  local elapsed = now - at
  if elapsed > 0 then
    local units, rest
    local product = elapsed * old_refill + parts
    if product <= MOST then
      -- As in `divided`, without the price of a call for every bucket.
      rest = fmod(product, old_period)
      units = (product - rest) / old_period
    else
      units, rest = divided(elapsed, old_refill, parts, old_period)
    end
    if units >= old_capacity - level then
      level, parts = old_capacity, 0
    else
      level, parts = level + units, rest
    end
    at = now
  elseif elapsed < -old_period then
    at = now
  end
  if capacity ~= old_capacity or refill ~= old_refill or period ~= old_period then
    parts = divided(parts, period, 0, old_period)
    level, parts = credited(level, parts, max(0, capacity - old_capacity), capacity)
  end
  return level, parts, at, held
end
