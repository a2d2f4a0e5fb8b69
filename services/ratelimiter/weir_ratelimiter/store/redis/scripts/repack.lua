local function packed_reservation(r)
  return pack_row(RESERVATION_ROW, r.state, r.created, r.acquired, r.expires, r.ttl,
    r.output, r.dispatched, r.prompt_done, r.cached_done, r.output_done, r.debt)
    .. pack(r.amounts, r.settlement, r.lifecycle, r.template, r.names)
end
