// A text codec that measures its work.
#pragma once

#include <memory>

#include "services/gateway/http/gateway_metrics.hpp"
#include "services/gateway/openai/text_codec.hpp"

namespace troupe::http {

/// Passes calls on to `inner`, and records the time of tokenizing and rendering, even if they fail.
std::shared_ptr<const openai::text_codec> timed_codec(std::shared_ptr<const openai::text_codec> inner,
                                                      std::shared_ptr<gateway_metrics> metrics);

} // namespace troupe::http
