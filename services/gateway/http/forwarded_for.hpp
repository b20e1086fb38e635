// Whose request a proxy passes on.
#pragma once

#include <string_view>

#include "services/options/network_address.hpp"

namespace troupe::http {

/// The client behind trusted proxies: the rightmost address of X-Forwarded-For that is none of theirs. What
/// stands left of it, or left of something that is no address, anybody may have made up.
/// @param peer       a trusted proxy
/// @param forwarded  all values of X-Forwarded-For, in their order, with commas between them
/// @returns the last trusted proxy on the way when the header names nobody else
network_address forwarded_client(const network_address& peer, std::string_view forwarded,
                                 const address_ranges& trusted);

} // namespace troupe::http
