-- The reservation of a record, for whoever changes it.

-- Debits an admitted reservation again, whatever the levels: its work is running already.
-- In a window that is not known it holds nothing; its charge will count all the same.
local function rebuild(KEYS, plan, id, created, record, now)
  local ttl, output, amounts, template = unpack_all(record)
  local kinds = plan.kinds
  local values, after = read_fields(KEYS, plan), {}
  local set = FIRST_LEASE_SET - 1
  call('ZADD', KEYS[3], now + ttl, id)
  for i = 1, plan.count do
    local amount = amounts[i]
    if kinds[i] == LEASE then
      set = set + 1
      after[i] = hold_place(KEYS[set], values[i], id, now, now + ttl)
    elseif kinds[i] == BUCKET then
      local capacity, refill, period = shape_of(plan, i, values[i])
      if capacity then
        local level, parts, at, held = bucket_at(values[i], capacity, refill, period, now)
        after[i] = pack_row(BUCKET_ROW, debited(level, amount), parts, at, held + amount,
          capacity, refill, period)
      end
    elseif values[i] then
      local used, held = unpack_all(values[i])
      after[i] = pack(used, held + amount)
    else
      amounts[i] = 0
    end
  end
  local reservation = pack_row(RESERVATION_ROW, RESERVED, created, now, now + ttl, ttl, output,
    0, 0, 0, 0, 0) .. pack(amounts, {}, '', template, plan.names)
  call('SET', KEYS[2], reservation)
  write_fields(KEYS, plan, after)
  return reservation
end
