-- What is the same in all calls about the same limits is one string, the plan, and is read once.
-- It is kept under its digest, and a call brings that alone: a server that does not have the plan
-- asks for the call in full. Nothing can be out of date, and nobody changes a plan.

local DIGEST_BYTES = 16

-- Once so many are known they are the older ones, and those older still are forgotten.
local MOST_PLANS = 8192
local plans, older, known = {}, {}, 0

-- The answer to a call that left out what this server turned out to need. Nothing was written.
local BRIEF = { 'brief' }

-- Beside what it was sent, a plan has: `row`, the format of a double for each field; `leases`, the
-- places of lease sets among the fields; `sets`, by place, where in KEYS the set is.
local function lease_sets(plan)
  plan.leases, plan.sets = {}, {}
  for i = 1, plan.count do
    if plan.kinds[i] == LEASE then
      plan.leases[#plan.leases + 1] = i
      plan.sets[i] = FIRST_LEASE_SET + #plan.leases - 1
    end
  end
end

local function keep_plan(digest, plan)
  if known == MOST_PLANS then
    plans, older, known = {}, plans, 0
  end
  plans[digest] = plan
  known = known + 1
  return plan
end

local function plan_from(packed)
  local plan = {}
  plan.own, plan.fields, plan.kinds, plan.resources, plan.capacities, plan.refills, plan.periods,
    plan.names, plan.overdraws, plan.asked, plan.max_debts = unpack_all(packed)
  plan.count = #plan.fields
  plan.row = '<' .. string.rep('d', plan.count)
  plan.packed_names = pack(plan.names)
  lease_sets(plan)
  return plan
end

-- The plan of a digest, or of a digest and the plan itself; nil if it is not known.
local function plan_of(told)
  local plan = plans[told]
  if plan then
    return plan
  end
  if #told > DIGEST_BYTES then
    local digest = string.sub(told, 1, DIGEST_BYTES)
    return plans[digest] or keep_plan(digest, plan_from(string.sub(told, DIGEST_BYTES + 1)))
  end
  plan = older[told]
  return plan and keep_plan(told, plan)
end
