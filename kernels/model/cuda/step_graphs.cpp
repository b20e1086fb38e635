#include "kernels/model/cuda/step_graphs.hpp"

#include <algorithm>

namespace troupe::model {

step_graphs::outcome step_graphs::run(const kernels::cuda::stream& on, const step_shape& shape,
                                      const piece& work) {
  const auto found = entries_.find(shape);
  if (found == entries_.end()) {
    auto result = work(false);
    if (entries_.size() >= most_)
      entries_.clear();
    entries_.emplace(shape, entry{});
    return result;
  }
  auto& of = found->second;
  if (of.is_refused)
    return work(false);
  if (!of.recorded) {
    try {
      of.recorded.emplace(kernels::cuda::graph::capture(on, [&] { of.after = work(true); }));
    } catch (const kernels::cuda::device_error&) {
      // Nothing of it was given to the stream. If the device is at fault, the same work says so.
      of.is_refused = true;
      ++num_refused_;
      return work(false);
    }
  } else {
    ++num_replays_;
  }
  of.recorded->launch(on);
  return of.after;
}

std::size_t step_graphs::num_graphs() const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const auto& known) { return known.second.recorded.has_value(); }));
}

} // namespace troupe::model
