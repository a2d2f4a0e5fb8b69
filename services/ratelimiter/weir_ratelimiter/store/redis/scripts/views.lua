-- Field values as a caller may see them: of lease sets, who is there at `now`.
local function seen(KEYS, plan, values, now)
  for _, i in ipairs(plan.leases) do
    values[i] = lease_view(KEYS[plan.sets[i]], values[i], now)
  end
  return values
end

-- The first values of a table that holds others beyond.
local function told(values, count)
  local some = {}
  for i = 1, count do
    some[i] = values[i]
  end
  return some
end
