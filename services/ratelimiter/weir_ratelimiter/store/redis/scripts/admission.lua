-- What few admissions need.

-- Whether an earlier reservation lost a place. Its limits may be others than those of now: then
-- only the lease sets that both have can be asked.
local function has_lost(KEYS, plan, id, r)
  local sets, set = {}, FIRST_LEASE_SET - 1
  for i = 1, plan.count do
    if plan.kinds[i] == LEASE then
      set = set + 1
      sets[plan.fields[i]] = KEYS[set]
    end
  end
  for _, name in ipairs(unpack_all(r.names)) do
    local key = sets['l:' .. name[1]]
    if name[2] == LEASE and key and not call('ZSCORE', key, holder_of(id, r.acquired)) then
      return true
    end
  end
  return false
end

-- The answer to a request that was admitted before.
local function repeated(KEYS, plan, id, stored, now)
  local r = read_reservation(stored)
  local lapsed = r.state == RESERVED and (now >= r.expires or has_lost(KEYS, plan, id, r))
  return { 'known', now, stored, lapsed and 1 or 0 }
end

-- Buckets whose moment is so far ahead that they count from `now`: that lasts if written down.
local function restarted(plan, values, now)
  local restarts = {}
  for i = 1, plan.count do
    if plan.kinds[i] == BUCKET and values[i] then
      local _, _, at, _, _, _, period = unpack_row(BUCKET_ROW, values[i])
      if at - now > period then
        local capacity, refill = plan.capacities[i], plan.refills[i]
        period = plan.periods[i]
        local level, parts, moment, held = bucket_at(values[i], capacity, refill, period, now)
        restarts[i] = pack_row(BUCKET_ROW, level, parts, moment, held, capacity, refill, period)
      end
    end
  end
  return restarts
end

-- Amounts and tail of what is held: not what nothing was asked of, nor what a shadow limit would
-- have refused.
local function held_only(amounts, tail)
  local lifecycle, template, names = unpack_all(tail)
  local kept_amounts, kept_names, asked = {}, {}, 0
  local all_names = unpack_all(names)
  for _, amount in ipairs(amounts) do
    if amount ~= 0 then
      asked = asked + 1
    end
    if amount > 0 then
      kept_amounts[#kept_amounts + 1] = amount
      kept_names[#kept_names + 1] = all_names[asked]
    end
  end
  return pack(kept_amounts), pack(lifecycle, template, pack(kept_names))
end
