-- Settle, Refund and the sweep: the correction goes to every layer unconditionally.

local SETTLE, REFUND, EXPIRE = 1, 2, 3
local EXACT, ESTIMATED = 1, 2
local OUTCOME_EXPIRED = 8
local CHARGE, ADJUST = 1, 2
local REQUESTS, TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, COST = 1, 2, 3, 4, 7

local override, mode, id, report, remember, is_own_epoch, from_record, prices, own,
  fields, kinds, resources, capacities, refills, periods, tells = unpack(unpack_all(ARGV[1]))
local created, ttl, output, prompt, requests, amounts = unpack(from_record)
local template, names, lifecycle = ARGV[2], ARGV[3], ARGV[4]

local now = clock(override)

local stored = call('GET', KEYS[2])
if not stored then
  if mode == EXPIRE then
    return { 'kept', now }
  end
  if is_own_epoch == 1 and created <= now - remember then
    return { 'forgotten', now }
  end
  stored = rebuild(id, now, created, ttl, output, template, names, own, fields, kinds, amounts,
    capacities, refills, periods)
end

local r = read_reservation(stored)
local open = r.state == RESERVED
if r.state == SETTLED or (mode ~= SETTLE and not open) then
  return { mode == EXPIRE and 'kept' or 'known', now, stored }
end
if r.names ~= names then
  return { 'other', now, stored }
end
if mode == EXPIRE and not has_lapsed(r, id, kinds, now) then
  return { 'kept', now }
end

-- What is charged, and how far it may be trusted.
local is_reported, reported_prompt, reported_cached, reported_output, quality, outcome =
  unpack(report)
local ran = r.dispatched == 1
local state = SETTLED
local charged_prompt = max(r.prompt_done, prompt)
local charged_cached, charged_output = r.cached_done, r.output_done
local charged_requests = requests
if mode == SETTLE and is_reported == 1 then
  charged_prompt, charged_cached, charged_output =
    reported_prompt, reported_cached, reported_output
  if quality == ESTIMATED then
    charged_prompt = max(charged_prompt, r.prompt_done)
    charged_cached = max(charged_cached, r.cached_done)
    charged_output = max(charged_output, r.output_done)
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

local charge_for = {
  [REQUESTS] = charged_requests,
  [TOKENS] = min(charged_prompt + charged_output, MOST),
  [INPUT_TOKENS] = charged_prompt,
  [OUTPUT_TOKENS] = charged_output,
  [COST] = min(
    (charged_prompt - charged_cached) * prices[1]
      + charged_cached * prices[2] + charged_output * prices[3], MOST),
}

local values = read_fields(fields, own)
local after, charges = {}, {}
local released = {}
local set = FIRST_LEASE_SET - 1
for i = 1, #fields do
  local kind, amount = kinds[i], r.amounts[i]
  if kind == LEASE then
    set = set + 1
    if open and amount > 0 then
      released[i] = KEYS[set]
    end
    charges[i] = -1
  elseif amount < 0 then
    charges[i] = -1
  elseif kind == WINDOW then
    local charge = charge_for[resources[i]]
    charges[i] = charge
    if values[i] then
      local used, held = unpack_all(values[i])
      if open then
        after[i] = pack(min(used + charge, MOST), held - amount)
      else
        after[i] = pack(min(used + charge - amount, MOST), held)
      end
    end
  else
    local charge = charge_for[resources[i]]
    local released_units = open and amount or 0
    local capacity, refill, period = shape_of(values[i], capacities[i], refills[i], periods[i])
    charges[i] = capacity and charge or -1
    if capacity and charge ~= amount then
      local level, parts, at, held = bucket_at(values[i], capacity, refill, period, now)
      if charge > amount then
        level = debited(level, charge - amount)
      else
        level, parts = credited(level, parts, amount - charge, capacity)
      end
      held = max(0, held - released_units)
      after[i] = pack(level, parts, at, capacity, refill, period, held)
    elseif values[i] then
      after[i] = without_held(values[i], released_units)
    end
  end
end

local before = r.settlement
local is_first = before[1] == nil
local requests_before = (not is_first and ran) and requests or 0
local event = pack(is_first and CHARGE or ADJUST, r.template, r.created,
  charged_prompt, charged_cached, charged_output,
  before[1] or 0, before[2] or 0, before[3] or 0,
  quality, outcome, now, charged_requests - requests_before,
  lifecycle ~= '' and lifecycle or r.lifecycle)

-- From here on writes. The first one fails, if any does, and then nothing was written.
if tells == 1 then
  call('XADD', KEYS[4], '*', 'e', event)
end
if open then
  call('ZREM', KEYS[3], id)
end
for i, key in pairs(released) do
  after[i] = free_place(key, values[i], id, r.acquired)
end
r.state, r.lifecycle = state, ''
r.amounts = state == SETTLED and {} or charges
r.names = state == SETTLED and '' or r.names
r.settlement = { charged_prompt, charged_cached, charged_output,
  mode == SETTLE and is_reported or 0, reported_prompt, reported_cached, reported_output,
  quality, outcome, now, open and 0 or 1 }
local ended = packed_reservation(r)
if remember > 0 then
  call('SET', KEYS[2], ended, 'PX', remember)
else
  call('DEL', KEYS[2])
end
write_fields(fields, own, after)
return { 'ended', now, ended }
