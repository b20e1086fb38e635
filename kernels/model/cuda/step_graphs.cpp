#include "kernels/model/cuda/step_graphs.hpp"

#include "kernels/error.hpp"

#include <algorithm>

namespace troupe::model {

namespace {

// A device without memory for a graph may have some later.
constexpr unsigned most_failures = 3;

} // namespace

step_graphs::step_graphs(std::size_t most) : most_(most) {
  kernels::expect(most >= 1, "step graphs: room for at least one");
}

step_graphs::outcome step_graphs::run(const kernels::cuda::stream& on, const step_shape& shape,
                                      const piece& work) {
  const forgotten_on_error guard(*this);
  const auto found = entries_.find(shape);
  if (found == entries_.end()) {
    auto result = work(false);
    add(shape);
    return result;
  }
  auto& of = found->second;
  by_use_.splice(by_use_.begin(), by_use_, of.place);
  if (of.failures == most_failures)
    return work(false);
  if (!of.recorded) {
    try {
      of.recorded.emplace(kernels::cuda::graph::capture(on, [&] { of.after = work(true); }));
    } catch (const kernels::cuda::device_error&) {
      // Nothing was given to the stream. If the device has failed, the direct computation reports it.
      if (++of.failures == most_failures)
        ++num_refused_;
      return work(false);
    }
  } else {
    ++num_replays_;
  }
  of.recorded->launch(on);
  return of.after;
}

void step_graphs::add(const step_shape& shape) {
  if (entries_.size() >= most_) {
    entries_.erase(entries_.find(*by_use_.back()));
    by_use_.pop_back();
  }
  const auto added = entries_.try_emplace(shape).first;
  by_use_.push_front(&added->first);
  added->second.place = by_use_.begin();
}

void step_graphs::clear() {
  entries_.clear();
  by_use_.clear();
}

std::size_t step_graphs::num_graphs() const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const auto& known) { return known.second.recorded.has_value(); }));
}

} // namespace troupe::model
