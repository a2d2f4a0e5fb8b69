-- What is the same in all calls about the same limits comes as one string, the plan, and is read
-- once. It is kept under that very string: a server that does not have it reads it again, and
-- nothing can be out of date. Nobody changes a plan.

local MOST_PLANS = 4096
local plans, known = {}, 0

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

local function plan_of(packed)
  local plan = plans[packed]
  if plan then
    return plan
  end
  plan = {}
  plan.own, plan.fields, plan.kinds, plan.resources, plan.capacities, plan.refills, plan.periods,
    plan.names, plan.overdraws, plan.asked, plan.max_debts = unpack_all(packed)
  plan.count = #plan.fields
  plan.row = '<' .. string.rep('d', plan.count)
  plan.packed_names = pack(plan.names)
  lease_sets(plan)
  if known == MOST_PLANS then
    plans, known = {}, 0
  end
  plans[packed] = plan
  known = known + 1
  return plan
end
