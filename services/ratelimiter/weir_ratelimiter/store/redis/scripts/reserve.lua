-- Reserve: asks every limit, then debits all or none.

local override, not_before, not_after, dry_run, id, ttl, output, own, fields, kinds, amounts,
  needed, capacities, refills, periods, shadows = unpack(unpack_all(ARGV[1]))
local template, names = ARGV[2], ARGV[3]

local now = clock(override)
if now < not_before or now >= not_after then
  return { 'moment', now }
end

-- Whether an earlier reservation lost a place. Its limits may be others than those of now: then
-- only the lease sets that both have can be asked.
local function has_lost(r)
  local sets, set = {}, FIRST_LEASE_SET - 1
  for i = 1, #fields do
    if kinds[i] == LEASE then
      set = set + 1
      sets[fields[i]] = KEYS[set]
    end
  end
  for _, name in ipairs(unpack_all(r.names)) do
    local key = sets['l:' .. name[1]]
    if name[2] == LEASE and key and not redis.call('ZSCORE', key, holder_of(id, r.acquired)) then
      return true
    end
  end
  return false
end

local stored = redis.call('GET', KEYS[2])
if stored then
  local r = read_reservation(stored)
  local lapsed = r.state == RESERVED and (now >= r.expires or has_lost(r))
  return { 'known', now, stored, lapsed and 1 or 0 }
end

local values = read_fields(fields, own)
local after, short = {}, {}
local is_seeded, refused = true, false
local set = FIRST_LEASE_SET - 1
for i = 1, #fields do
  local kind, amount, fits = kinds[i], amounts[i], true
  if kind == BUCKET then
    local level, parts, at, held = bucket_at(values[i], capacities[i], refills[i], periods[i], now)
    fits = level >= needed[i]
    if fits then
      level = debited(level, amount)
      after[i] = pack(level, parts, at, capacities[i], refills[i], periods[i], held + amount)
    end
  elseif kind == LEASE then
    set = set + 1
    local number, _, earliest = summary_of(values[i])
    fits = capacities[i] - places(KEYS[set], number, earliest, now) >= amount
  elseif values[i] then
    local used, held = unpack_all(values[i])
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
    refused = refused or shadows[i] == 0
  end
end

if not is_seeded then
  return { 'unseeded', now, seen(values, kinds, now) }
end
if refused or dry_run == 1 then
  if refused and dry_run == 0 then
    write_fields(fields, own, restarted(values, kinds, capacities, refills, periods, now))
  end
  return { 'refused', now, short, seen(values, kinds, now) }
end

-- What a shadow limit would have refused is not debited from it.
local function without_dropped()
  local kept_amounts, kept_names = {}, {}
  for i, name in ipairs(unpack_all(names)) do
    if amounts[i] >= 0 then
      kept_amounts[#kept_amounts + 1], kept_names[#kept_names + 1] = amounts[i], name
    end
  end
  return kept_amounts, pack(kept_names)
end

local expires = now + ttl
redis.call('ZADD', KEYS[3], string.format('%.0f', expires), id)
set = FIRST_LEASE_SET - 1
for i = 1, #fields do
  if kinds[i] == LEASE then
    set = set + 1
    if amounts[i] > 0 then
      after[i] = hold_place(KEYS[set], values[i], id, now, expires)
    end
  end
end
local held_amounts, held_names = amounts, names
if #short > 0 then
  held_amounts, held_names = without_dropped()
end
local reservation = pack(RESERVED, now, now, expires, ttl, output, 0, 0, 0, 0, 0,
  held_amounts, {}, '', template, held_names)
redis.call('SET', KEYS[2], reservation)
write_fields(fields, own, after)
return { 'reserved', now, reservation, short, #short > 0 and seen(values, kinds, now) or {} }
