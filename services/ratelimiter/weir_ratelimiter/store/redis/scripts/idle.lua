-- A tenant's hash grows by the buckets of users and keys that come and go. Whoever adds a field
-- looks at a few others, so that the hash stays in proportion to what is in use.

local LOOKED_AT = 6

local function is_idle(field, value, idle_since)
  local kind = string.sub(field, 1, 2)
  if kind == 'l:' then
    return unpack_row(SUMMARY_ROW, value) == 0
  elseif kind == 'h:' then
    return units_held(value) == 0
  elseif kind ~= 'b:' then
    return false
  end
  local level, parts, at, held, capacity, refill, period = unpack_row(BUCKET_ROW, value)
  if held > 0 or at > idle_since then
    return false
  end
  return divided(idle_since - at, refill, parts, period) >= capacity - level
end

-- Forgets buckets that are full since `idle_since`, lease sets without leases, and holds of nothing.
local function forget_some(hash, idle_since)
  local some = call('HRANDFIELD', hash, LOOKED_AT, 'WITHVALUES')
  for i = 1, #some, 2 do
    if is_idle(some[i], some[i + 1], idle_since) then
      call('HDEL', hash, some[i])
    end
  end
end
