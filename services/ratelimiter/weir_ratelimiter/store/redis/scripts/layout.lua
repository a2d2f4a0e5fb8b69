-- What lies where.

-- KEYS: the tenant's hash, the reservation, the shard's expiry set and outbox, the shared hash,
-- then the lease sets among the fields, in their order.
local BUCKET, LEASE, WINDOW, HOLD = 1, 2, 3, 5
local FIRST_LEASE_SET = 6

-- A window is stored as what it was used for and what open reservations hold.
local WINDOW_ROW = '<dd'

-- A hold is stored as the units that open reservations have of it; one that is not there has none.
local HOLD_ROW = '<d'

local function units_held(stored)
  return stored and unpack_row(HOLD_ROW, stored) or 0
end

-- A reservation is stored whole: a row of numbers, the last of them the number of amounts; a row
-- of amounts; unless it is open, a row about its end; then, packed one after the other, its
-- lifecycle, and what never changes, as Python packed it. `names` says which limits the amounts
-- belong to; an amount of -1 was dropped.
local RESERVATION_ROW, AMOUNTS_FROM = '<dddddddddddd', 96
local SETTLEMENT_ROW, SETTLEMENT_BYTES = '<ddddddddddd', 88
local ENDED_ROW = RESERVATION_ROW .. 'ddddddddddd'
local RESERVED, SETTLED, REFUNDED, EXPIRED = 1, 2, 3, 4

-- Stands for the lifecycle of half a reservation that was asked for more than once.
local JOINED = 'joined'

-- A packed string without contents.
local EMPTY = '\160'

-- After a number of no meaning: lifecycle, template, names.
local function packed_of(stored, state, number)
  local from = AMOUNTS_FROM + 8 * number
  if state ~= RESERVED then
    from = from + SETTLEMENT_BYTES
  end
  return unpack_from(stored, 3, from)
end

local function amounts_of(stored, number)
  local amounts = { unpack_row('<' .. string.rep('d', number), stored, AMOUNTS_FROM + 1) }
  amounts[number + 1] = nil
  return amounts
end

local function read_reservation(stored)
  local r = {}
  r.state, r.created, r.acquired, r.expires, r.ttl, r.output, r.dispatched,
    r.prompt_done, r.cached_done, r.output_done, r.debt, r.number =
    unpack_row(RESERVATION_ROW, stored)
  r.amounts = amounts_of(stored, r.number)
  local _
  _, r.lifecycle, r.template, r.names = packed_of(stored, r.state, r.number)
  return r
end

-- Values of the fields of a plan: its `own` first are the tenant's, the others of the shared hash.
local function read_fields(KEYS, plan)
  local fields, own, count = plan.fields, plan.own, plan.count
  if own == count then
    return own > 0 and call('HMGET', KEYS[1], unpack(fields)) or {}
  end
  local shared = call('HMGET', KEYS[5], unpack(fields, own + 1))
  if own == 0 then
    return shared
  end
  local values = call('HMGET', KEYS[1], unpack(fields, 1, own))
  for i = 1, #shared do
    values[own + i] = shared[i]
  end
  return values
end

-- Fields and values to be written, where among them those of lease sets are, and what all fields of
-- a plan then have. Made once: a table that grows in every call is dear. What lies beyond the last
-- is left from earlier calls.
local puts, places_of_leases, afterwards = {}, {}, {}

-- A table that stays empty.
local NONE = {}

-- What an end charges by resource, likewise made once.
local charge_for = { 0, 0, 0, 0, 0, 0, 0 }

-- Writes `puts`: the first `own` of them are the tenant's, those up to `all` of the shared hash.
local function write_puts(KEYS, own, all)
  if own > 0 then
    call('HSET', KEYS[1], unpack(puts, 1, own))
  end
  if all > own then
    call('HSET', KEYS[5], unpack(puts, own + 1, all))
  end
end

-- Writes what `after` has for a field; nil or false leaves it alone.
local function write_fields(KEYS, plan, after)
  local fields, n, own_puts = plan.fields, 0, 0
  for i = 1, plan.count do
    if after[i] then
      puts[n + 1], puts[n + 2] = fields[i], after[i]
      n = n + 2
    end
    if i == plan.own then
      own_puts = n
    end
  end
  write_puts(KEYS, own_puts, n)
end
