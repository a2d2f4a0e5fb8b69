-- Numbers are doubles: whole up to 2^53, and no further. Anything that may pass that is split or
-- clamped here. tostring() and cjson keep 14 digits; MessagePack and `struct` keep all, both ways.
-- What is written often and is nothing but numbers is a row of doubles: that is half the work.

local MOST = 2 ^ 53 - 1

-- A library has none of these while it is loaded: the first call fetches them.
local call, pack, unpack_all, unpack_from, pack_row, unpack_row, floor, fmod, min, max

local function wake()
  call, pack, unpack_all = redis.call, cmsgpack.pack, cmsgpack.unpack
  unpack_from, pack_row, unpack_row = cmsgpack.unpack_limit, struct.pack, struct.unpack
  floor, fmod, min, max = math.floor, math.fmod, math.min, math.max
end

-- A whole number in digits. A concatenation would write it as a float, for twice the price.
local function whole(number)
  return string.format('%d', number)
end

-- Unix milliseconds, read once in a call: TIME moves while a function runs.
local function clock(override)
  if override > 0 then
    return override
  end
  local time = call('TIME')
  return time[1] * 1000 + floor(time[2] / 1000)
end

-- Whole part and rest of (factor * rate + parts) / period.
-- factor < 2^51, parts < period <= 2^35. The whole part is exact up to 2^53, the rest always.
local function divided(factor, rate, parts, period)
  local product = factor * rate + parts
  if product <= MOST then
    -- Not floor(product / period): the quotient of two exact doubles may round up.
    local rest = fmod(product, period)
    return (product - rest) / period, rest
  end
  -- Long division, 17 bits of the factor at a time: no term passes 2^53.
  local rate_rest = fmod(rate, period)
  local rate_whole = (rate - rate_rest) / period
  local whole, rest = 0, 0
  for digit = 2, 0, -1 do
    local bits = fmod(floor(factor / 2 ^ (17 * digit)), 2 ^ 17)
    rest = rest * 2 ^ 17 + bits * rate_rest
    local over = fmod(rest, period)
    whole = whole * 2 ^ 17 + bits * rate_whole + (rest - over) / period
    rest = over
  end
  rest = rest + parts
  if rest >= period then
    return whole + 1, rest - period
  end
  return whole, rest
end
