-- After the clock went back: no lease lasts longer than it was given for.

local override, id, longest = unpack_all(ARGV[1])
local plan = plan_of(ARGV[2])
if not plan then
  return BRIEF
end
local now = clock(override)

local stored = call('GET', KEYS[2])
if not stored then
  return { 'kept', now }
end
local r = read_reservation(stored)
if r.state ~= RESERVED or r.names ~= plan.names or r.expires <= now + longest then
  return { 'kept', now }
end
local expires = now + r.ttl
local values, after = read_fields(KEYS, plan), {}
call('ZADD', KEYS[3], expires, id)
for _, i in ipairs(plan.leases) do
  if r.amounts[i] > 0 then
    call('ZADD', KEYS[plan.sets[i]], 'XX', expires, holder_of(id, r.acquired))
    after[i] = sooner(values[i], expires)
  end
end
r.expires = expires
call('SET', KEYS[2], packed_reservation(plan, r))
write_fields(KEYS, plan, after)
return { 'shortened', now }
