"""Which addresses a webhook may be sent to: those of the public Internet alone.

A tenant names the URL, the gateway calls it: without a check it would be a way into the network
that the gateway is in (server-side request forgery). The name is resolved here, each address is
looked at, and the connection goes to the address that was looked at, so that a name that means
another address a moment later changes nothing.
"""

import ipaddress

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# Public by their numbers, but of a cloud's own machines: Azure's host agent.
_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})
# Translations of IPv4 addresses, which stand at the end (RFC 6052, RFC 8215).
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.ip_network("::/96")


def is_public(text: str) -> bool:
    """Whether an address, as a resolver tells it, is one of the public Internet.

    An IPv6 address that carries an IPv4 one (mapped, compatible, 6to4, Teredo, NAT64) is as
    public as that.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return _is_public(address)


def _is_public(address: IpAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        carried = _carried(address)
        if any(not _is_public(one) for one in carried):
            return False
        if address.is_site_local or (address.ipv4_mapped is None and address in _COMPATIBLE):
            return False
        if address.ipv4_mapped is not None:
            return True
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_unspecified
        and address not in _METADATA
    )


def _carried(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    carried = [one for one in (address.ipv4_mapped, address.sixtofour) if one is not None]
    if address.teredo is not None:
        carried.extend(address.teredo)
    if any(address in network for network in _NAT64):
        carried.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return carried
