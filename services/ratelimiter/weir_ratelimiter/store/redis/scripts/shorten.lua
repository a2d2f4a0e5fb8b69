-- After the clock went back: no lease lasts longer than it was given for.

local override, id, longest = unpack_all(ARGV[1])
local plan = plan_of(ARGV[2])
local kinds = plan.kinds
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
local set = FIRST_LEASE_SET - 1
for i = 1, plan.count do
  if kinds[i] == LEASE then
    set = set + 1
    if r.amounts[i] > 0 then
      call('ZADD', KEYS[set], 'XX', expires, holder_of(id, r.acquired))
      local number, starts, earliest = summary_of(values[i])
      after[i] = pack(number, starts, min(earliest, expires))
    end
  end
end
r.expires = expires
call('SET', KEYS[2], packed_reservation(r))
write_fields(KEYS, plan, after)
return { 'shortened', now }
