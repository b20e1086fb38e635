// A text codec whose work shows in the metrics.
#pragma once

#include <memory>

#include "services/gateway/metrics.hpp"
#include "services/gateway/openai/text_codec.hpp"

namespace troupe::http {

/// Does what `inner` does, and tells how long tokenizing and rendering took, also where they fail.
std::shared_ptr<const openai::text_codec> timed_codec(std::shared_ptr<const openai::text_codec> inner,
                                                      std::shared_ptr<gateway_metrics> metrics);

} // namespace troupe::http
