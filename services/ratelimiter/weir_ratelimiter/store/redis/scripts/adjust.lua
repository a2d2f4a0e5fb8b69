-- Adjust: gives units to a bucket or a window, or takes them, once by id.

local override, not_before, not_after, remember, units, field, kind, capacity, refill, period =
  unpack_all(ARGV[1])
local template = ARGV[2]
local now = clock(override)
if now < not_before or now >= not_after then
  return { 'moment', now }
end
local value = call('HGET', KEYS[1], field)

local made = call('GET', KEYS[2])
if made then
  return { 'known', now, made, value }
end

local after
local given = units
if kind == BUCKET then
  local level, parts, at, held = bucket_at(value, capacity, refill, period, now)
  if math.abs(level + units) > MOST then
    return { 'bounds', now }
  end
  if units >= 0 then
    local before = level
    level, parts = credited(level, parts, units, capacity)
    given = level - before
  else
    level = level + units
  end
  after = pack_row(BUCKET_ROW, level, parts, at, held, capacity, refill, period)
elseif value then
  local used, held = unpack_row(WINDOW_ROW, value)
  if math.abs(used - units) > MOST then
    return { 'bounds', now }
  end
  after = pack_row(WINDOW_ROW, used - units, held)
end

local grant = pack(now, template, given)
call('XADD', KEYS[3], '*', 'g', grant)
call('SET', KEYS[2], grant, 'PX', remember)
if after then
  call('HSET', KEYS[1], field, after)
end
return { 'adjusted', now, grant, after or false }
