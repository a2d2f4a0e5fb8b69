-- An open reservation; its limits are those of the plan.
local function packed_reservation(plan, r)
  return pack_row(RESERVATION_ROW, r.state, r.created, r.acquired, r.expires, r.ttl,
    r.output, r.dispatched, r.prompt_done, r.cached_done, r.output_done, r.debt, r.number)
    .. pack_row(plan.row, unpack(r.amounts)) .. pack(r.lifecycle, r.template, r.names)
end
