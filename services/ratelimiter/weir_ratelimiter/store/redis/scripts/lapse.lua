-- Whether an open reservation lost a place, be it before the clock went back.
local function has_lapsed(KEYS, plan, id, acquired, expires, amounts, now)
  if now >= expires then
    return true
  end
  local kinds, set = plan.kinds, FIRST_LEASE_SET - 1
  for i = 1, plan.count do
    if kinds[i] == LEASE then
      set = set + 1
      local is_held = amounts[i] > 0
      if is_held and not call('ZSCORE', KEYS[set], holder_of(id, acquired)) then
        return true
      end
    end
  end
  return false
end
