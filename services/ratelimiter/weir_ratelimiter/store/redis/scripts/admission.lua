-- What few admissions need.

-- Whether an earlier reservation lost a place. Its limits may be others than those of now: then
-- only the lease sets that both have can be asked.
local function has_lost(KEYS, plan, id, r)
  local sets = {}
  for _, i in ipairs(plan.leases) do
    sets[plan.fields[i]] = KEYS[plan.sets[i]]
  end
  for _, name in ipairs(unpack_all(r.names)) do
    local key = sets['l:' .. name[1]]
    if name[2] == LEASE and key and not call('ZSCORE', key, holder_of(id, r.acquired)) then
      return true
    end
  end
  return false
end

-- Half of a reservation that another call counts on, too: whoever made it cannot undo it any more.
local function joined(r, stored)
  local before = AMOUNTS_FROM + 8 * r.number
  return string.sub(stored, 1, before) .. pack(JOINED) .. string.sub(stored, before + 2)
end

-- The answer to a request that was admitted before.
local function repeated(KEYS, plan, id, stored, now, is_half)
  local r = read_reservation(stored)
  local lapsed = r.state == RESERVED and (now >= r.expires or has_lost(KEYS, plan, id, r))
  if is_half and r.state == RESERVED and not lapsed and r.lifecycle == '' then
    call('SET', KEYS[2], joined(r, stored))
  end
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

-- Number, amounts and names of what is held: not what nothing was asked of, nor what a shadow
-- limit would have refused.
local function held_only(plan, amounts)
  local rows, names = {}, {}
  local all_names = unpack_all(plan.names)
  for i = 1, plan.count do
    if amounts[i] > 0 then
      rows[#rows + 1] = pack_row('<d', amounts[i])
      names[#names + 1] = all_names[i]
    end
  end
  return #rows, table.concat(rows), pack(pack(names))
end
