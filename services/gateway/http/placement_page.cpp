#include "services/gateway/http/placement_page.hpp"

#include <charconv>
#include <vector>

#include "services/pages/placement_page.hpp"

namespace troupe::http {

namespace {

double of_million(std::uint64_t parts) {
  return static_cast<double>(parts) / 1e6;
}

pages::step_part step_of(const predicted_step& step) {
  return {static_cast<double>(step.step_ns) / 1e3, static_cast<double>(step.busiest_ns) / 1e3,
          of_million(step.messages_ppm), of_million(step.max_share_ppm)};
}

std::vector<pages::move_part> moves_of(const std::vector<expert_change>& moves) {
  std::vector<pages::move_part> result;
  for (const auto& moved : moves)
    result.push_back({moved.expert.layer, moved.expert.index, moved.from, moved.to});
  return result;
}

pages::progress_part progress_of(const change_progress_status& progress) {
  const placement_change& change = progress.change;
  pages::progress_part result{
      change.id,     change.reason,          change.moves,         change.bytes,
      progress.done, progress.given_up,      progress.left,        progress.elapsed_ms,
      std::nullopt,  step_of(change.before), step_of(change.after)};
  if (progress.left > 0)
    result.in_flight = moves_of(change.experts);
  return result;
}

} // namespace

std::string placement_page(const rebalancer_status& status) {
  pages::placement_page page;
  page.planner = to_string(status.mode);
  for (const auto& progress : status.changes)
    (progress.left > 0 ? page.change : page.last) = progress_of(progress);
  for (const auto& pin : status.pins)
    page.pins.push_back({pin.expert.layer, pin.expert.index, pin.hosts});
  for (const auto& order : status.replicas) {
    std::uint32_t count = 0;
    for (const auto& text : order.hosts)
      std::from_chars(text.data(), text.data() + text.size(), count);
    page.replicas.push_back({order.expert.layer, order.expert.index, count});
  }
  page.drained = status.drained;
  if (status.imbalance_ppm > 0)
    page.imbalance = of_million(status.imbalance_ppm);
  if (status.wanted_workers > 0)
    page.wanted_workers = status.wanted_workers;
  return encode(page);
}

std::string change_page(const placement_change& change, bool is_dry_run) {
  return encode(pages::change_page{change.id, is_dry_run, change.reason, change.moves, change.bytes,
                                   step_of(change.before), step_of(change.after), moves_of(change.experts)});
}

} // namespace troupe::http
