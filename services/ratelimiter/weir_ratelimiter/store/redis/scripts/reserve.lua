-- Reserve: asks every limit, then debits all or none.
-- An amount of 0 asks nothing of a limit; where it stands is told all the same.

local override, not_before, not_after, dry_run, id, ttl, output, asks_all, remember,
  is_half = unpack_all(ARGV[1])
local plan, template = plan_of(ARGV[2]), ARGV[4]
if not plan then
  return BRIEF
end
local kinds, capacities, count = plan.kinds, plan.capacities, plan.count

local now = clock(override)
if now < not_before or now >= not_after then
  return { 'moment', now }
end

local stored = call('GET', KEYS[2])
if stored then
  return repeated(KEYS, plan, id, stored, now, is_half == 1)
end

local fields, sets, refills, periods = plan.fields, plan.sets, plan.refills, plan.periods
local overdraws, asked = plan.overdraws, plan.asked
local row_of_amounts = ARGV[3]
local amounts = { unpack_row(plan.row, row_of_amounts) }
local values = read_fields(KEYS, plan)
local after, short, shorts = afterwards, NONE, 0
local is_seeded, refused, is_whole = true, false, true
local adds_own, adds_shared = false, false
local own, own_puts, all_puts = plan.own, 0, 0
for i = 1, count do
  local kind, amount, fits, value = kinds[i], amounts[i], true, values[i]
  local changed = value
  if amount > 0 then
    if not value then
      adds_own, adds_shared = adds_own or i <= own, adds_shared or i > own
    end
    if kind == BUCKET then
      local capacity, refill, period = capacities[i], refills[i], periods[i]
      local level, parts, at, held = bucket_at(value, capacity, refill, period, now)
      fits = level >= amount or (overdraws[i] == 1 and level >= capacity)
      if fits then
        changed = pack_row(BUCKET_ROW, debited(level, amount), parts, at, held + amount,
          capacity, refill, period)
      end
    elseif kind == LEASE then
      local number, _, earliest = summary_of(value)
      fits = capacities[i] - places(KEYS[sets[i]], number, earliest, now) >= amount
      places_of_leases[i] = all_puts + 2
    elseif kind == HOLD then
      local held = units_held(value)
      local needed = overdraws[i] == 1 and min(amount, capacities[i]) or amount
      fits = capacities[i] - held >= needed
      if fits then
        changed = pack_row(HOLD_ROW, held + amount)
      end
    elseif value then
      local used, held = unpack_row(WINDOW_ROW, value)
      fits = capacities[i] - used - held >= amount
      if fits then
        changed = pack_row(WINDOW_ROW, used, held + amount)
      end
    else
      is_seeded = false
    end
    if fits then
      all_puts = all_puts + 2
      puts[all_puts - 1], puts[all_puts] = fields[i], changed
    else
      shorts = shorts + 1
      short = shorts == 1 and {} or short
      short[shorts] = i
      amounts[i] = -1
      refused = refused or asked[i] == 1
    end
  end
  if kind == LEASE and not (amount > 0 and fits) then
    changed = lease_view(KEYS[sets[i]], value, now)
    is_whole = is_whole and changed and #changed == SUMMARY_BYTES
  end
  after[i] = changed
  is_whole = is_whole and (changed or kind == LEASE)
  if i == own then
    own_puts = all_puts
  end
end

if not is_seeded then
  return { 'unseeded', now, seen(KEYS, plan, values, now) }
end
if refused or dry_run == 1 then
  if refused and dry_run == 0 then
    write_fields(KEYS, plan, restarted(plan, values, now))
  end
  return { 'refused', now, seen(KEYS, plan, values, now) }
end

local expires = now + ttl
local number, names = count, plan.packed_names
if shorts > 0 then
  number, row_of_amounts, names = held_only(plan, amounts)
elseif asks_all == 0 then
  number, row_of_amounts, names = #ARGV[5] / 8, ARGV[5], ARGV[6]
end
local reservation = pack_row(RESERVATION_ROW, RESERVED, now, now, expires, ttl, output,
  0, 0, 0, 0, 0, number) .. row_of_amounts .. EMPTY .. template .. names

-- From here on writes.
call('ZADD', KEYS[3], expires, id)
call('SET', KEYS[2], reservation)
local leases = plan.leases
for k = 1, #leases do
  local i = leases[k]
  if amounts[i] > 0 then
    after[i] = hold_place(KEYS[sets[i]], values[i], id, now, expires)
    puts[places_of_leases[i]] = after[i]
  end
end
write_puts(KEYS, own_puts, all_puts)
if adds_own then
  forget_some(KEYS[1], now - remember)
end
if adds_shared then
  forget_some(KEYS[5], now - remember)
end
-- One string is cheaper to tell than many, and far cheaper than a table of them. It takes that
-- each value has the length of its kind.
if is_whole and shorts == 0 then
  after[0] = pack_row('<d', now)
  return table.concat(after, '', 0, count)
elseif is_whole then
  return { 'reserved', now, short, table.concat(after, '', 1, count) }
end
return { 'reserved', now, short, told(after, count) }
