// The client of a request that came through proxies.
#pragma once

#include <string_view>

#include "services/options/network_address.hpp"

namespace troupe::http {

/// The client behind trusted proxies: the rightmost address of X-Forwarded-For that is not a trusted proxy.
/// Anything left of it, or left of text that is not an address, may be forged.
/// @param peer       a trusted proxy
/// @param forwarded  all values of X-Forwarded-For, in their order, separated by commas
/// @returns the last trusted proxy on the way when the header names no other address
network_address forwarded_client(const network_address& peer, std::string_view forwarded,
                                 const address_ranges& trusted);

} // namespace troupe::http
