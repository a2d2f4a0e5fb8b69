-- A reservation is stored whole: what may change as numbers, what never changes as Python packed
-- it. `names` says which limits `amounts` belong to; an amount of -1 was dropped.

local RESERVED, SETTLED, REFUNDED, EXPIRED = 1, 2, 3, 4
local BUCKET, LEASE, WINDOW = 1, 2, 3
local FIRST_LEASE_SET = 6
local REQUESTS, TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, COST = 1, 2, 3, 4, 7

local function read_reservation(stored)
  local r = {}
  r.state, r.created, r.acquired, r.expires, r.ttl, r.output, r.dispatched,
    r.prompt_done, r.cached_done, r.output_done, r.debt,
    r.amounts, r.settlement, r.lifecycle, r.template, r.names = unpack_all(stored)
  return r
end

local function packed_reservation(r)
  return pack(r.state, r.created, r.acquired, r.expires, r.ttl, r.output, r.dispatched,
    r.prompt_done, r.cached_done, r.output_done, r.debt,
    r.amounts, r.settlement, r.lifecycle, r.template, r.names)
end

-- Values of `fields`: the first `own` are the tenant's, the others of the shared hash.
local function read_fields(fields, own)
  local values = {}
  if own > 0 then
    values = redis.call('HMGET', KEYS[1], unpack(fields, 1, own))
  end
  if own < #fields then
    local shared = redis.call('HMGET', KEYS[5], unpack(fields, own + 1))
    for i = 1, #shared do
      values[own + i] = shared[i]
    end
  end
  return values
end

local function put_all(hash, pairs_to_put)
  if pairs_to_put[1] then
    redis.call('HSET', hash, unpack(pairs_to_put))
  end
end

-- Writes what `after` has for a field; nil leaves it alone.
local function write_fields(fields, own, after)
  local own_puts, shared_puts, own_count, shared_count = {}, {}, 0, 0
  for i = 1, #fields do
    local value = after[i]
    if value then
      if i <= own then
        own_puts[own_count + 1], own_puts[own_count + 2] = fields[i], value
        own_count = own_count + 2
      else
        shared_puts[shared_count + 1], shared_puts[shared_count + 2] = fields[i], value
        shared_count = shared_count + 2
      end
    end
  end
  put_all(KEYS[1], own_puts)
  put_all(KEYS[5], shared_puts)
end

-- Whether an open reservation lost a place, be it before the clock went back.
local function has_lapsed(r, id, kinds, now)
  if now >= r.expires then
    return true
  end
  local set = FIRST_LEASE_SET - 1
  for i = 1, #kinds do
    if kinds[i] == LEASE then
      set = set + 1
      local held = r.amounts[i] > 0
      if held and not redis.call('ZSCORE', KEYS[set], holder_of(id, r.acquired)) then
        return true
      end
    end
  end
  return false
end

-- Field values as a caller may see them: of lease sets, who is there at `now`.
local function seen(values, kinds, now)
  local set = FIRST_LEASE_SET - 1
  for i = 1, #kinds do
    if kinds[i] == LEASE then
      set = set + 1
      values[i] = lease_view(KEYS[set], values[i], now)
    end
  end
  return values
end

-- Buckets whose moment is so far ahead that they count from `now`: that lasts if written down.
local function restarted(values, kinds, capacities, refills, periods, now)
  local after = {}
  for i = 1, #kinds do
    if kinds[i] == BUCKET and values[i] then
      local _, _, at, _, _, period = unpack_all(values[i])
      if at - now > period then
        local level, parts, moment, held =
          bucket_at(values[i], capacities[i], refills[i], periods[i], now)
        after[i] = pack(level, parts, moment, capacities[i], refills[i], periods[i], held)
      end
    end
  end
  return after
end
