// A long text that is put together on the pool, some of it at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "services/gateway/http/background.hpp"
#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// About the bytes of a piece: some milliseconds of a thread.
inline constexpr size_t piece_bytes = 256 << 10;

/// Calls `append` on threads of the pool until it says that the text is complete. Between two calls other
/// work has its turn.
/// @param append    appends a piece; true: that was the last one. What it throws is thrown here
/// @param deadline  for the pool to have room
/// @throws openai::api_error 429 when it has none until then
task<std::string> text_in_pieces(exchange& client, background& work, std::function<bool(std::string&)> append,
                                 std::chrono::steady_clock::time_point deadline);

} // namespace troupe::http
