-- Extend: a sign of life, progress, and more output, from all layers or from none.

local TOKENS, OUTPUT_TOKENS, COST, IN_FLIGHT_TOKENS = 2, 4, 7, 11

local override, id, remember, is_own_epoch, admitted_ms, output_price,
  prompt_done, cached_done, output_done, additional, dispatched, may_owe, new_ttl, most_output,
  lifecycle = unpack_all(ARGV[1])
local plan = plan_of(ARGV[2])
if not plan then
  return BRIEF
end
local kinds, resources = plan.kinds, plan.resources

local now = clock(override)

local stored = call('GET', KEYS[2])
if not stored then
  if is_own_epoch == 1 and admitted_ms <= now - remember then
    return { 'forgotten', now }
  end
  if not ARGV[3] then
    return BRIEF
  end
  stored = rebuild(KEYS, plan, id, admitted_ms, ARGV[3], now)
end

local r = read_reservation(stored)
if r.state ~= RESERVED then
  return { 'over', now, stored }
end
if r.names ~= plan.names then
  return { 'other', now, stored }
end
if has_lapsed(KEYS, plan, id, r.acquired, r.expires, r.amounts, now) then
  return { 'over', now, stored }
end

local ran_beyond = max(0, output_done - r.output)
local secured = r.output + ran_beyond
local extra = max(0, min(output_done + additional, most_output) - secured)

-- Units of a resource that output tokens take.
local function units_of(resource, tokens)
  if resource == COST then
    return min(tokens * output_price, MOST)
  end
  return tokens
end

local values, levels, after, short = {}, {}, {}, {}
local owed = 0
local expires = now + (new_ttl > 0 and new_ttl or r.ttl)
if ran_beyond + extra > 0 or expires < r.expires then
  values = read_fields(KEYS, plan)
end
for i = 1, #values do
  local kind, resource = kinds[i], resources[i]
  local counts = resource == TOKENS or resource == OUTPUT_TOKENS or resource == COST
    or resource == IN_FLIGHT_TOKENS
  if counts and r.amounts[i] >= 0 then
    local free
    if kind == BUCKET then
      local capacity, refill, period = shape_of(plan, i, values[i])
      if capacity then
        local level, parts, at, held = bucket_at(values[i], capacity, refill, period, now)
        levels[i] = { level, parts, at, held, capacity, refill, period }
        free = level
      end
    elseif kind == HOLD then
      local held = units_held(values[i])
      levels[i] = { held }
      free = plan.capacities[i] - held
    elseif kind == WINDOW and values[i] then
      local used, held = unpack_row(WINDOW_ROW, values[i])
      levels[i] = { used, held }
      free = plan.capacities[i] - used - held
    end
    if free and extra > 0 and plan.asked[i] == 1 then
      local units = units_of(resource, extra)
      free = free - units_of(resource, ran_beyond)
      if not (free >= units) then
        local missing = units - max(0, free)
        if may_owe == 1 and units - free <= plan.max_debts[i] then
          owed = max(owed, math.ceil(missing / (units / extra)))
        else
          short[#short + 1] = i
        end
      end
    end
  end
end

local granted = extra
if #short > 0 then
  granted, owed = 0, 0
end
local debit = ran_beyond + granted
if debit > 0 then
  for i, state in pairs(levels) do
    local units = units_of(resources[i], debit)
    if kinds[i] == BUCKET then
      local level, parts, at, held, capacity, refill, period = unpack(state)
      after[i] = pack_row(BUCKET_ROW, debited(level, units), parts, at, held + units,
        capacity, refill, period)
    elseif kinds[i] == HOLD then
      after[i] = pack_row(HOLD_ROW, state[1] + units)
    else
      after[i] = pack_row(WINDOW_ROW, state[1], state[2] + units)
    end
    r.amounts[i] = r.amounts[i] + units
  end
end

call('ZADD', KEYS[3], expires, id)
for _, i in ipairs(plan.leases) do
  if r.amounts[i] > 0 then
    call('ZADD', KEYS[plan.sets[i]], 'XX', expires, holder_of(id, r.acquired))
    if expires < r.expires then
      after[i] = sooner(values[i], expires)
    end
  end
end
local before = #short > 0 and stored or ''
r.ttl = new_ttl > 0 and new_ttl or r.ttl
r.expires, r.output, r.debt = expires, secured + granted, r.debt + owed
r.prompt_done = max(r.prompt_done, prompt_done)
r.cached_done = max(r.cached_done, cached_done)
r.output_done = max(r.output_done, output_done)
if dispatched == 1 or r.prompt_done + r.cached_done + r.output_done > 0 then
  r.dispatched = 1
end
if lifecycle ~= '' then
  r.lifecycle = lifecycle
end
local extended = packed_reservation(plan, r)
call('SET', KEYS[2], extended)
write_fields(KEYS, plan, after)
return { 'extended', now, extended, owed > 0 and 1 or 0, before, before ~= '' and values or {} }
