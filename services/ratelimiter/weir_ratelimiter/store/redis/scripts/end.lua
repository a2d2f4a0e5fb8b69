-- Settle, Refund and the sweep: the correction goes to every layer unconditionally.

local SETTLE, REFUND, EXPIRE = 1, 2, 3
local EXACT, ESTIMATED = 1, 2
local OUTCOME_EXPIRED = 8
local CHARGE, ADJUST = 1, 2
local EVENT_ROW = '<dddddddddddd'

local override, mode, id, remember, is_own_epoch, tells, admitted_ms, prompt, requests,
  is_reported, reported_prompt, reported_cached, reported_output, quality, outcome,
  input_price, cached_price, output_price, lifecycle = unpack_all(ARGV[1])
local plan = plan_of(ARGV[2])
local kinds, resources, count = plan.kinds, plan.resources, plan.count

local now = clock(override)

local stored = call('GET', KEYS[2])
if not stored then
  if mode == EXPIRE then
    return { 'kept', now }
  end
  if is_own_epoch == 1 and admitted_ms <= now - remember then
    return { 'forgotten', now }
  end
  stored = rebuild(KEYS, plan, id, admitted_ms, ARGV[3], now)
end

local state, created, acquired, expires, ttl, output, dispatched, prompt_done, cached_done,
  output_done, debt = unpack_row(RESERVATION_ROW, stored)
local _, amounts, before, last_lifecycle, template, names = packed_of(stored)
local open = state == RESERVED
if state == SETTLED or (mode ~= SETTLE and not open) then
  return { mode == EXPIRE and 'kept' or 'known', now, stored }
end
if names ~= plan.names then
  return { 'other', now, stored }
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
elseif mode == REFUND and not ran then
  state, quality = REFUNDED, EXACT
elseif mode == REFUND or quality ~= EXACT then
  quality = ESTIMATED
end

-- By resource: requests, tokens, input and output tokens, two that only leases count, cost.
local charge_for = {
  charged_requests,
  min(charged_prompt + charged_output, MOST),
  charged_prompt,
  charged_output,
  0,
  0,
  min((charged_prompt - charged_cached) * input_price
    + charged_cached * cached_price + charged_output * output_price, MOST),
}

local values = read_fields(KEYS, plan)
local is_final = state == SETTLED
local after, charges, released = {}, {}, {}
local set = FIRST_LEASE_SET - 1
for i = 1, count do
  local kind, amount, value, charged = kinds[i], amounts[i], values[i], -1
  if kind == LEASE then
    set = set + 1
    if open and amount > 0 then
      released[i] = KEYS[set]
    end
  elseif amount < 0 then
    -- It holds nothing of this limit.
  elseif kind == WINDOW then
    local charge = charge_for[resources[i]]
    charged = charge
    if value then
      local used, held = unpack_all(value)
      if open then
        after[i] = pack(min(used + charge, MOST), held - amount)
      else
        after[i] = pack(min(used + charge - amount, MOST), held)
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
      after[i] = pack_row(BUCKET_ROW, level, parts, at, max(0, held - released_units),
        capacity, refill, period)
    elseif value then
      after[i] = without_held(value, released_units)
    end
  end
  -- Nobody asks for the charges of what can change no more.
  if not is_final then
    charges[i] = charged
  end
end

local is_first = before[1] == nil
local requests_before = (not is_first and ran) and requests or 0
local event = pack_row(EVENT_ROW, is_first and CHARGE or ADJUST, created,
  charged_prompt, charged_cached, charged_output,
  before[1] or 0, before[2] or 0, before[3] or 0,
  quality, outcome, now, charged_requests - requests_before)
  .. pack(template, lifecycle ~= '' and lifecycle or last_lifecycle)

-- From here on writes. The first one fails, if any does, and then nothing was written.
if tells == 1 then
  call('XADD', KEYS[4], '*', 'e', event)
end
if open then
  call('ZREM', KEYS[3], id)
end
for i, key in pairs(released) do
  after[i] = free_place(key, values[i], id, acquired)
end
if remember > 0 then
  local numbers = pack_row(RESERVATION_ROW, state, created, acquired, expires, ttl, output,
    dispatched, prompt_done, cached_done, output_done, debt)
  local settlement = ELEVEN .. pack(charged_prompt, charged_cached, charged_output,
    mode == SETTLE and is_reported or 0, reported_prompt, reported_cached, reported_output,
    quality, outcome, now, open and 0 or 1)
  stored = numbers .. (is_final and NONE or pack(charges)) .. settlement
    .. pack('', template, is_final and '' or names)
  call('SET', KEYS[2], stored, 'PX', remember)
else
  call('DEL', KEYS[2])
end
write_fields(KEYS, plan, after)
return { 'ended', now, stored }
