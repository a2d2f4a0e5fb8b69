-- Where limits stand. Changes nothing.

local override, not_before, not_after = unpack_all(ARGV[1])
local plan = plan_of(ARGV[2])
if not plan then
  return BRIEF
end
local now = clock(override)
if now < not_before or now >= not_after then
  return { 'moment', now }
end
return { 'seen', now, seen(KEYS, plan, read_fields(KEYS, plan), now) }
