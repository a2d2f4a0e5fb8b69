-- Reserve: asks every limit, then debits all or none.
-- An amount of 0 asks nothing of a limit; where it stands is told all the same.

local override, not_before, not_after, dry_run, id, ttl, output, asks_all, remember =
  unpack_all(ARGV[1])
local plan, packed_amounts, tail = plan_of(ARGV[2]), ARGV[3], ARGV[4]
local kinds, capacities, count = plan.kinds, plan.capacities, plan.count

local now = clock(override)
if now < not_before or now >= not_after then
  return { 'moment', now }
end

local stored = call('GET', KEYS[2])
if stored then
  return repeated(KEYS, plan, id, stored, now)
end

local refills, periods = plan.refills, plan.periods
local overdraws, asked = plan.overdraws, plan.asked
local amounts = unpack_all(packed_amounts)
local values = read_fields(KEYS, plan)
local after, short = {}, {}
local is_seeded, refused = true, false
local adds_own, adds_shared = false, false
local set = FIRST_LEASE_SET - 1
for i = 1, count do
  local kind, amount, fits, value = kinds[i], amounts[i], true, values[i]
  if kind == LEASE then
    set = set + 1
  end
  if amount > 0 then
    if not value then
      adds_own, adds_shared = adds_own or i <= plan.own, adds_shared or i > plan.own
    end
    if kind == BUCKET then
      local capacity, refill, period = capacities[i], refills[i], periods[i]
      local level, parts, at, held = bucket_at(value, capacity, refill, period, now)
      fits = level >= amount or (overdraws[i] == 1 and level >= capacity)
      if fits then
        after[i] = pack_row(BUCKET_ROW, debited(level, amount), parts, at, held + amount,
          capacity, refill, period)
      end
    elseif kind == LEASE then
      local number, _, earliest = summary_of(value)
      fits = capacities[i] - places(KEYS[set], number, earliest, now) >= amount
    elseif value then
      local used, held = unpack_all(value)
      fits = capacities[i] - used - held >= amount
      if fits then
        after[i] = pack(used, held + amount)
      end
    else
      is_seeded = false
    end
    if not fits then
      short[#short + 1] = i
      amounts[i] = -1
      refused = refused or asked[i] == 1
    end
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
if #short > 0 or asks_all == 0 then
  packed_amounts, tail = held_only(amounts, tail)
end
local reservation = pack_row(RESERVATION_ROW, RESERVED, now, now, expires, ttl, output,
  0, 0, 0, 0, 0) .. packed_amounts .. NONE .. tail

-- From here on writes.
call('ZADD', KEYS[3], expires, id)
call('SET', KEYS[2], reservation)
set = FIRST_LEASE_SET - 1
for i = 1, count do
  if kinds[i] == LEASE then
    set = set + 1
    if amounts[i] > 0 then
      after[i] = hold_place(KEYS[set], values[i], id, now, expires)
    end
  end
end
write_fields(KEYS, plan, after)
if adds_own then
  forget_some(KEYS[1], now - remember)
end
if adds_shared then
  forget_some(KEYS[5], now - remember)
end
for i = 1, count do
  after[i] = after[i] or values[i]
end
return { 'reserved', now, reservation, short, seen(KEYS, plan, after, now) }
