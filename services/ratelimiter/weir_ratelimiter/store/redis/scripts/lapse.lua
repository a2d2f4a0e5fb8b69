-- Whether an open reservation lost a place, be it before the clock went back.
local function has_lapsed(r, id, kinds, now)
  if now >= r.expires then
    return true
  end
  local set = FIRST_LEASE_SET - 1
  for i = 1, #kinds do
    if kinds[i] == LEASE then
      set = set + 1
      local held = r.amounts[i] > 0
      if held and not call('ZSCORE', KEYS[set], holder_of(id, r.acquired)) then
        return true
      end
    end
  end
  return false
end
