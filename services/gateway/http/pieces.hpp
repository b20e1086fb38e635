// Puts a long text together on the pool, piece by piece.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "services/gateway/http/background.hpp"
#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// Approximate size of a piece: some milliseconds of a thread.
inline constexpr std::size_t piece_bytes = 256 << 10;

/// Calls `append` on threads of the pool until the text is complete. Other jobs run between two calls.
/// @param append    appends a piece; true: it was the last one. Its exceptions are rethrown
/// @param deadline  until the pool must have room
/// @throws openai::api_error 429 when the pool has no room by then
task<std::string> text_in_pieces(exchange& client, background& work, std::function<bool(std::string&)> append,
                                 std::chrono::steady_clock::time_point deadline);

} // namespace troupe::http
