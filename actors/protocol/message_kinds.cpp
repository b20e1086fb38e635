#include "actors/protocol/message_kinds.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "actors/protocol/type_ids.hpp"

namespace troupe {

namespace {

/// Changed kinds, with their oldest and newest version. Appending a field raises the newest. The oldest
/// follows once the last release that writes it is out of upgrades, and at once when a layout changes in
/// another way: such a message then reaches no peer that has the old layout.
const std::map<std::string, wire::version_range> changed{
    {"troupe::admission_request", {1, 2}},  {"troupe::attention_status", {1, 2}},
    {"troupe::generation_request", {1, 2}}, {"troupe::lease_renewal", {2, 3}},
    {"troupe::rebalancer_status", {2, 2}},  {"troupe::scheduler_status", {2, 3}},
    {"troupe::token_update", {1, 2}},       {"troupe::worker_hello", {3, 3}},
    {"troupe::worker_welcome", {1, 2}},
};

wire::version_range versions_of(const std::string& name) {
  const auto found = changed.find(name);
  auto result = found == changed.end() ? wire::version_range{} : found->second;
#ifdef TROUPE_NEXT_VERSION // actors/transport/wire/extensible.cpp then appends a field to each
  ++result.newest;
#endif
  return result;
}

template <class Block, std::size_t... Offsets>
void add(std::vector<wire::message_kind>& kinds, std::index_sequence<Offsets...>) {
  (kinds.push_back({caf::type_name_by_id<Block::begin + Offsets>::value, {}}), ...);
}

template <class... Blocks>
std::vector<wire::message_kind> kinds_of(caf::detail::type_list<Blocks...>) {
  std::vector<wire::message_kind> result;
  (add<Blocks>(result, std::make_index_sequence<Blocks::end - Blocks::begin>{}), ...);
  for (auto& kind : result)
    kind.versions = versions_of(kind.name);
#ifdef TROUPE_NEXT_VERSION
  result.push_back({"troupe::only_in_the_next_version", {1, 1}});
#endif
  return result;
}

} // namespace

std::vector<wire::message_kind> message_kinds() {
  return kinds_of(message_blocks{});
}

} // namespace troupe
