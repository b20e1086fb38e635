// What POST /cluster/placement asks for. The README of this folder's parent says what it looks like.
#pragma once

#include <cstddef>
#include <string_view>

#include "actors/rebalancer/rebalancer_messages.hpp"

namespace troupe::http {

/// Room for the hosts of all experts of a large model, by name.
inline constexpr size_t max_placement_command_bytes = size_t{8} << 20;

/// Whether there are such layers, experts and workers is not known here.
/// @throws openai::api_error 400 that names the member at fault, and says which ones the action has
placement_command parse_placement_command(std::string_view body);

} // namespace troupe::http
