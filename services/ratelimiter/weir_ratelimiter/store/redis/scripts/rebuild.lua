-- The reservation of a record, for whoever changes it.

-- Debits an admitted reservation again, whatever the levels: its work is running already.
-- In a window that is not known it holds nothing; its charge will count all the same.
local function rebuild(id, now, created, ttl, output, template, names, own, fields, kinds, amounts,
  capacities, refills, periods)
  local values, after = read_fields(fields, own), {}
  local set = FIRST_LEASE_SET - 1
  call('ZADD', KEYS[3], now + ttl, id)
  for i = 1, #fields do
    local kind, amount = kinds[i], amounts[i]
    if kind == LEASE then
      set = set + 1
      after[i] = hold_place(KEYS[set], values[i], id, now, now + ttl)
    elseif kind == BUCKET then
      local capacity, refill, period = shape_of(values[i], capacities[i], refills[i], periods[i])
      if capacity then
        local level, parts, at, held = bucket_at(values[i], capacity, refill, period, now)
        after[i] = pack(debited(level, amount), parts, at, capacity, refill, period, held + amount)
      end
    elseif values[i] then
      local used, held = unpack_all(values[i])
      after[i] = pack(used, held + amount)
    else
      amounts[i] = 0
    end
  end
  local r = pack(RESERVED, created, now, now + ttl, ttl, output, 0, 0, 0, 0, 0,
    amounts, {}, '', template, names)
  call('SET', KEYS[2], r)
  write_fields(fields, own, after)
  return r
end
