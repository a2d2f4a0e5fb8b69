-- Seed: windows get the counts of the ledger where they are still unknown, and with at_least
-- where the ledger has more.

local override, fields, used, held, prefixes, at_least = unpack_all(ARGV[1])
local KEPT = 3

-- Windows of a limit but the latest few: their field names sort by time.
local function forget_old(prefix)
  local found = {}
  for _, field in ipairs(call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, #prefix) == prefix then
      found[#found + 1] = field
    end
  end
  table.sort(found)
  for i = 1, #found - KEPT do
    call('HDEL', KEYS[1], found[i])
  end
end

for i = 1, #fields do
  if call('HSETNX', KEYS[1], fields[i], pack_row(WINDOW_ROW, used[i], held[i])) == 1 then
    forget_old(prefixes[i])
  elseif at_least == 1 then
    local known, holds = unpack_row(WINDOW_ROW, call('HGET', KEYS[1], fields[i]))
    if known < used[i] then
      call('HSET', KEYS[1], fields[i], pack_row(WINDOW_ROW, used[i], holds))
    end
  end
end
return { 'seeded', clock(override) }
