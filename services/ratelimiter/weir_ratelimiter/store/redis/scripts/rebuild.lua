-- The reservation of a record, for whoever changes it.

-- Debits an admitted reservation again, whatever the levels: its work is running already.
-- In a window that is not known it holds nothing; its charge will count all the same.
local function rebuild(KEYS, plan, id, created, record, now)
  local ttl, output, amounts, template = unpack_all(record)
  local kinds = plan.kinds
  local values, after = read_fields(KEYS, plan), {}
  call('ZADD', KEYS[3], now + ttl, id)
  for i = 1, plan.count do
    local amount = amounts[i]
    if kinds[i] == LEASE then
      after[i] = hold_place(KEYS[plan.sets[i]], values[i], id, now, now + ttl)
    elseif kinds[i] == BUCKET then
      local capacity, refill, period = shape_of(plan, i, values[i])
      if capacity then
        local level, parts, at, held = bucket_at(values[i], capacity, refill, period, now)
        after[i] = pack_row(BUCKET_ROW, debited(level, amount), parts, at, held + amount,
          capacity, refill, period)
      end
    elseif kinds[i] == HOLD then
      after[i] = pack_row(HOLD_ROW, units_held(values[i]) + amount)
    elseif values[i] then
      local used, held = unpack_row(WINDOW_ROW, values[i])
      after[i] = pack_row(WINDOW_ROW, used, held + amount)
    else
      amounts[i] = 0
    end
  end
  local reservation = pack_row(RESERVATION_ROW, RESERVED, created, now, now + ttl, ttl, output,
    0, 0, 0, 0, 0, plan.count) .. pack_row(plan.row, unpack(amounts))
    .. pack('', template, plan.names)
  call('SET', KEYS[2], reservation)
  write_fields(KEYS, plan, after)
  return reservation
end
