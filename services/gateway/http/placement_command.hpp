// What POST /cluster/placement asks for. The README of this folder's parent says what it looks like.
#pragma once

#include <cstddef>
#include <string_view>

#include "actors/protocol/rebalancer_messages.hpp"

namespace troupe::http {

/// Room for the hosts of all experts of a large model, by name.
inline constexpr std::size_t max_placement_command_bytes = std::size_t{8} << 20;

/// Does not check whether the layers, experts and workers exist.
/// @throws openai::api_error 400 that names the member at fault, and says which ones the action has
placement_command parse_placement_command(std::string_view body);

} // namespace troupe::http
