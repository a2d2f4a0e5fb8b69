-- Whether an open reservation lost a place, be it before the clock went back.
local function has_lapsed(KEYS, plan, id, acquired, expires, amounts, now)
  if now >= expires then
    return true
  end
  for _, i in ipairs(plan.leases) do
    local is_held = amounts[i] > 0
    if is_held and not call('ZSCORE', KEYS[plan.sets[i]], holder_of(id, acquired)) then
      return true
    end
  end
  return false
end
