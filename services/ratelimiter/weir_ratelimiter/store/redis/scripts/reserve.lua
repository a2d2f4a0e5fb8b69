-- Reserve: asks every limit, then debits all or none.
-- An amount of 0 asks nothing of a limit; where it stands is told all the same.

local override, not_before, not_after, dry_run, id, ttl, output, own, fields, kinds, amounts,
  capacities, refills, periods, needed, shadows, asks_all, remember = unpack(unpack_all(ARGV[1]))
local template, names = ARGV[2], ARGV[3]
local count = #fields

local now = clock(override)
if now < not_before or now >= not_after then
  return { 'moment', now }
end

local stored = call('GET', KEYS[2])
if stored then
  -- Whether an earlier reservation lost a place. Its limits may be others than those of now: then
  -- only the lease sets that both have can be asked.
  local function has_lost(r)
    local sets, set = {}, FIRST_LEASE_SET - 1
    for i = 1, count do
      if kinds[i] == LEASE then
        set = set + 1
        sets[fields[i]] = KEYS[set]
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

  local r = read_reservation(stored)
  local lapsed = r.state == RESERVED and (now >= r.expires or has_lost(r))
  return { 'known', now, stored, lapsed and 1 or 0 }
end

local values = read_fields(fields, own)
local after, short = {}, {}
local is_seeded, refused, adds = true, false, {}
local set = FIRST_LEASE_SET - 1
for i = 1, count do
  local kind, amount, fits, value = kinds[i], amounts[i], true, values[i]
  if kind == LEASE then
    set = set + 1
  end
  if amount > 0 then
    if not value then
      adds[i <= own and 1 or 5] = true
    end
    if kind == BUCKET then
      local capacity, refill, period = capacities[i], refills[i], periods[i]
      local level, parts, at, held = bucket_at(value, capacity, refill, period, now)
      fits = level >= (needed[i] or amount)
      if fits then
        after[i] = pack(debited(level, amount), parts, at, capacity, refill, period, held + amount)
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
      refused = refused or shadows[i] ~= 1
    end
  end
end

if not is_seeded then
  return { 'unseeded', now, seen(values, kinds, now) }
end
if refused or dry_run == 1 then
  if refused and dry_run == 0 then
    -- Buckets whose moment is so far ahead that they count from `now`: that lasts if written down.
    local function restarted()
      local restarts = {}
      for i = 1, count do
        if kinds[i] == BUCKET and values[i] then
          local _, _, at, _, _, period = unpack_all(values[i])
          if at - now > period then
            local level, parts, moment, held =
              bucket_at(values[i], capacities[i], refills[i], periods[i], now)
            restarts[i] = pack(level, parts, moment, capacities[i], refills[i], periods[i], held)
          end
        end
      end
      return restarts
    end
    write_fields(fields, own, restarted())
  end
  return { 'refused', now, seen(values, kinds, now) }
end

local expires = now + ttl
local held_amounts, held_names = amounts, names
if #short > 0 or asks_all == 0 then
  -- Only what is held: not what nothing was asked of, nor what a shadow limit would have refused.
  local function held_only()
    local kept_amounts, kept_names, asked = {}, {}, 0
    local all_names = unpack_all(names)
    for i = 1, count do
      if amounts[i] ~= 0 then
        asked = asked + 1
      end
      if amounts[i] > 0 then
        kept_amounts[#kept_amounts + 1] = amounts[i]
        kept_names[#kept_names + 1] = all_names[asked]
      end
    end
    return kept_amounts, pack(kept_names)
  end
  held_amounts, held_names = held_only()
end
local reservation = pack(RESERVED, now, now, expires, ttl, output, 0, 0, 0, 0, 0,
  held_amounts, {}, '', template, held_names)

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
write_fields(fields, own, after)
for place in pairs(adds) do
  forget_some(KEYS[place], now - remember)
end
for i = 1, count do
  after[i] = after[i] or values[i]
end
return { 'reserved', now, reservation, short, seen(after, kinds, now) }
