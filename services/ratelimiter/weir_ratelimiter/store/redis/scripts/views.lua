-- Field values as a caller may see them: of lease sets, who is there at `now`.
local function seen(KEYS, plan, values, now)
  local kinds, set = plan.kinds, FIRST_LEASE_SET - 1
  for i = 1, plan.count do
    if kinds[i] == LEASE then
      set = set + 1
      values[i] = lease_view(KEYS[set], values[i], now)
    end
  end
  return values
end
