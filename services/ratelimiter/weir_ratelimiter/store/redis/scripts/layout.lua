-- What lies where.

-- KEYS: the tenant's hash, the reservation, the shard's expiry set and outbox, the shared hash,
-- then the lease sets among the fields, in their order.
local BUCKET, LEASE, WINDOW = 1, 2, 3
local FIRST_LEASE_SET = 6

-- A reservation is stored whole: numbers that may change, then what is packed: amounts, the
-- numbers of its end, and what never changes, as Python packed it. `names` says which limits
-- `amounts` belong to; an amount of -1 was dropped.
local RESERVATION_ROW, PACKED_FROM = '<ddddddddddd', 88
local RESERVED, SETTLED, REFUNDED, EXPIRED = 1, 2, 3, 4

-- Heads of packed arrays of no and of eleven elements.
local NONE, ELEVEN = '\144', '\155'

-- After a number of no meaning: amounts, settlement, lifecycle, template, names.
local function packed_of(stored)
  return unpack_from(stored, 5, PACKED_FROM)
end

local function read_reservation(stored)
  local r = {}
  r.state, r.created, r.acquired, r.expires, r.ttl, r.output, r.dispatched,
    r.prompt_done, r.cached_done, r.output_done, r.debt = unpack_row(RESERVATION_ROW, stored)
  local _
  _, r.amounts, r.settlement, r.lifecycle, r.template, r.names = packed_of(stored)
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

-- Fields and values of one HSET. Made once: a table that grows in every call is dear. What lies
-- beyond the last pair is left from earlier calls.
local puts = {}

-- Writes what `after` has for a field; nil leaves it alone.
local function write_fields(KEYS, plan, after)
  local fields, own, count = plan.fields, plan.own, plan.count
  local n = 0
  for i = 1, count do
    if i == own + 1 and n > 0 then
      call('HSET', KEYS[1], unpack(puts, 1, n))
      n = 0
    end
    if after[i] then
      puts[n + 1], puts[n + 2] = fields[i], after[i]
      n = n + 2
    end
  end
  if n > 0 then
    call('HSET', own < count and KEYS[5] or KEYS[1], unpack(puts, 1, n))
  end
end
