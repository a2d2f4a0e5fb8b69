-- Settle, Refund and the sweep: the correction goes to every layer unconditionally.

local SETTLE, REFUND, EXPIRE, UNDO = 1, 2, 3, 4
local EXACT, ESTIMATED = 1, 2
local OUTCOME_EXPIRED = 8
local CHARGE, ADJUST = 1, 2
local EVENT_ROW = '<dddddddddddd'

local override, mode, id, remember, is_own_epoch, tells, admitted_ms, prompt, requests,
  is_reported, reported_prompt, reported_cached, reported_output, quality, outcome,
  input_price, cached_price, output_price, lifecycle = unpack_all(ARGV[1])
local plan = plan_of(ARGV[2])
if not plan then
  return BRIEF
end
local kinds, resources, count = plan.kinds, plan.resources, plan.count

local now = clock(override)

local stored = call('GET', KEYS[2])
if not stored then
  if mode == EXPIRE or mode == UNDO then
    return { 'kept', now }
  end
  if is_own_epoch == 1 and admitted_ms <= now - remember then
    return { 'forgotten', now }
  end
  if not ARGV[3] then
    return BRIEF
  end
  stored = rebuild(KEYS, plan, id, admitted_ms, ARGV[3], now)
end

local state, created, acquired, expires, ttl, output, dispatched, prompt_done, cached_done,
  output_done, debt, number = unpack_row(RESERVATION_ROW, stored)
local _, last_lifecycle, template, names = packed_of(stored, state, number)
local open = state == RESERVED
if state == SETTLED or (mode ~= SETTLE and not open) then
  return { mode == EXPIRE and 'kept' or 'known', now, stored }
end
if names ~= plan.names then
  return { 'other', now, stored }
end
local amounts = { unpack_row(plan.row, stored, AMOUNTS_FROM + 1) }
if mode == UNDO and last_lifecycle ~= '' then
  return { 'kept', now }
end
if mode == EXPIRE and not has_lapsed(KEYS, plan, id, acquired, expires, amounts, now) then
  return { 'kept', now }
end

-- What is charged, and how far it may be trusted.
local ran = dispatched == 1
state = SETTLED
local charged_prompt = max(prompt_done, prompt)
local charged_cached, charged_output = cached_done, output_done
local charged_requests = requests
if mode == SETTLE and is_reported == 1 then
  charged_prompt, charged_cached, charged_output =
    reported_prompt, reported_cached, reported_output
  if quality == ESTIMATED then
    charged_prompt = max(charged_prompt, prompt_done)
    charged_cached = max(charged_cached, cached_done)
    charged_output = max(charged_output, output_done)
  end
elseif mode ~= SETTLE and not ran then
  charged_prompt, charged_cached, charged_output, charged_requests = 0, 0, 0, 0
end
if mode == EXPIRE then
  state, quality, outcome = EXPIRED, ESTIMATED, OUTCOME_EXPIRED
elseif mode ~= SETTLE and not ran then
  state, quality = REFUNDED, EXACT
elseif mode ~= SETTLE or quality ~= EXACT then
  quality = ESTIMATED
end

-- By resource: requests, tokens, input and output tokens, two that only leases count, cost. What
-- a hold counts is not charged.
charge_for[1], charge_for[2] = charged_requests, min(charged_prompt + charged_output, MOST)
charge_for[3], charge_for[4] = charged_prompt, charged_output
charge_for[7] = min((charged_prompt - charged_cached) * input_price
  + charged_cached * cached_price + charged_output * output_price, MOST)

local values = read_fields(KEYS, plan)
local is_final = state == SETTLED
local fields, own, own_puts, all_puts = plan.fields, plan.own, 0, 0
local charges = is_final and NONE or {}
for i = 1, count do
  local kind, amount, value, charged = kinds[i], amounts[i], values[i], -1
  local changed = false
  if amount < 0 then
    -- It holds nothing of this limit.
  elseif kind == LEASE then
    -- Its place is given back below.
    changed = open and amount > 0 and value
    places_of_leases[i] = all_puts + 2
  elseif kind == HOLD then
    changed = open and value and pack_row(HOLD_ROW, max(0, units_held(value) - amount))
  elseif kind == WINDOW then
    local charge = charge_for[resources[i]]
    charged = charge
    if value then
      local used, held = unpack_row(WINDOW_ROW, value)
      if open then
        changed = pack_row(WINDOW_ROW, min(used + charge, MOST), held - amount)
      else
        changed = pack_row(WINDOW_ROW, min(used + charge - amount, MOST), held)
      end
    end
  else
    local charge = charge_for[resources[i]]
    local released_units = open and amount or 0
    local capacity, refill, period = shape_of(plan, i, value)
    charged = capacity and charge or -1
    if capacity and charge ~= amount then
      local level, parts, at, held = bucket_at(value, capacity, refill, period, now)
      if charge > amount then
        level = debited(level, charge - amount)
      else
        level, parts = credited(level, parts, amount - charge, capacity)
      end
      changed = pack_row(BUCKET_ROW, level, parts, at, max(0, held - released_units),
        capacity, refill, period)
    elseif value then
      changed = without_held(value, released_units)
    end
  end
  if changed then
    all_puts = all_puts + 2
    puts[all_puts - 1], puts[all_puts] = fields[i], changed
  end
  if i == own then
    own_puts = all_puts
  end
  -- Nobody asks for the charges of what can change no more.
  if not is_final then
    charges[i] = charged
  end
end

-- What it was charged before, if this corrects an earlier end.
local prompt_before, cached_before, output_before, requests_before = 0, 0, 0, 0
if not open then
  prompt_before, cached_before, output_before =
    unpack_row('<ddd', stored, AMOUNTS_FROM + 8 * number + 1)
  requests_before = ran and requests or 0
end
local packed_template = pack(template)
local event = pack_row(EVENT_ROW, open and CHARGE or ADJUST, created,
  charged_prompt, charged_cached, charged_output, prompt_before, cached_before, output_before,
  quality, outcome, now, charged_requests - requests_before)
  .. packed_template .. pack(lifecycle ~= '' and lifecycle or last_lifecycle)

-- From here on writes. The first one fails, if any does, and then nothing was written.
if tells == 1 then
  call('XADD', KEYS[4], '*', 'e', event)
end
if open then
  call('ZREM', KEYS[3], id)
  for _, i in ipairs(plan.leases) do
    if amounts[i] > 0 and values[i] then
      puts[places_of_leases[i]] = free_place(KEYS[plan.sets[i]], values[i], id, acquired)
    end
  end
end
if remember > 0 then
  local reported = mode == SETTLE and is_reported or 0
  local late = open and 0 or 1
  if is_final then
    stored = pack_row(ENDED_ROW, state, created, acquired, expires, ttl, output,
      dispatched, prompt_done, cached_done, output_done, debt, 0,
      charged_prompt, charged_cached, charged_output, reported,
      reported_prompt, reported_cached, reported_output, quality, outcome, now, late)
      .. EMPTY .. packed_template .. EMPTY
  else
    stored = pack_row(RESERVATION_ROW, state, created, acquired, expires, ttl, output,
      dispatched, prompt_done, cached_done, output_done, debt, count)
      .. pack_row(plan.row, unpack(charges, 1, count))
      .. pack_row(SETTLEMENT_ROW, charged_prompt, charged_cached, charged_output, reported,
        reported_prompt, reported_cached, reported_output, quality, outcome, now, late)
      .. EMPTY .. packed_template .. pack(names)
  end
  call('SET', KEYS[2], stored, 'PX', remember)
else
  call('DEL', KEYS[2])
end
write_puts(KEYS, own_puts, all_puts)
-- A string is far cheaper to tell than a table; this one says `now`, too.
if is_final and remember > 0 then
  return stored
end
return { 'ended', now, stored }
