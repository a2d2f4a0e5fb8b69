"""Which addresses a webhook may be sent to: those of the public Internet alone.

A tenant names the URL, the gateway calls it: without a check it would be a way into the network
that the gateway is in (server-side request forgery). The name is resolved here, each address is
looked at, and the connection goes to the address that was looked at, so that a name that means
another address a moment later changes nothing.
"""

import ipaddress

_BLOCKED = tuple(
    ipaddress.ip_network(text)
    for text in (
        # Azure's host agent: public by its number.
        "168.63.129.16/32",
        # Of IANA's registries of special addresses those that Python does not know of, or not in
        # every release: protocols (Oracle's metadata), 6to4 relays, benchmarks.
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        # Protocols with Teredo; documentation; 6to4.
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    )
)
# All of IPv6 that is routed between networks: what lies outside stands for something else, such
# as an IPv4 address (compatible, translated), or for nothing yet.
_ROUTED = ipaddress.IPv6Network("2000::/3")
# Names translated by a DNS64 (RFC 6147): the IPv4 address stands at the end.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(text: str) -> bool:
    """Whether an address, as a resolver tells it, is one of the public Internet.

    An IPv6 address that stands for an IPv4 one (mapped, NAT64) is as public as that.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        carried = _carried(address)
        if carried is None and address not in _ROUTED:
            return False
        address = carried or address
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in network for network in _BLOCKED)
    )


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped
