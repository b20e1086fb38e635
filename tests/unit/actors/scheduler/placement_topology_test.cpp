// Two hosts of an expert do not share a location, such as a node, if another location has room.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/actors/scheduler/target_subject.hpp"

namespace troupe {
namespace {

using places_by_host = std::map<worker_id, std::string>;

/// The least number of locations of any expert's hosts.
std::size_t fewest_places(const target_subject& s, const places_by_host& places) {
  std::size_t fewest = SIZE_MAX;
  for (const auto& [expert, hosts] : s.hosts()) {
    std::set<std::string> found;
    for (auto host : hosts)
      found.insert(places.at(host));
    fewest = std::min(fewest, found.size());
  }
  return fewest;
}

TEST(placement_topology, hosts_of_an_expert_are_at_distinct_places) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    const auto replicas = 2 + random.below(2);
    const auto num_places = replicas + random.below(2);
    target_subject s{random_layers(random), replicas};
    if (s.num_experts() == 0) // all layers are dense
      continue;
    places_by_host places;
    const auto join = [&](std::uint64_t id, std::uint32_t place) {
      places[{id}] = std::string("node-") + std::to_string(place);
      s.add(id, unlimited, places[{id}]);
    };
    for (std::uint32_t place = 0; place < num_places; ++place)
      join(place + 1, place);
    s.target.repair({});
    ASSERT_EQ(fewest_places(s, places), replicas);
    for (std::uint64_t id = num_places + 1; id <= num_places + 6; ++id) {
      join(id, random.below(num_places));
      s.target.repair({});
      ASSERT_EQ(fewest_places(s, places), replicas) << "after host " << id << " joined";
    }
    expect_sound(s);
    const auto last = places.rbegin()->first; // not the only one of its place
    s.remove(last.value);
    places.erase(last);
    s.target.repair({});
    ASSERT_EQ(fewest_places(s, places), replicas) << "after one died";
    EXPECT_TRUE(s.target.repair({}).empty()) << "what is good stays";
  }
}

TEST(placement_topology, one_place_holds_both_until_there_is_another) {
  target_subject s{{4, 4}, 2};
  places_by_host places{{{1}, "a"}, {{2}, "a"}, {{3}, "b"}};
  s.add(1, unlimited, "a");
  s.add(2, unlimited, "a");
  s.target.repair({});
  for (const auto& [expert, hosts] : s.hosts())
    EXPECT_EQ(hosts, (std::vector<worker_id>{{1}, {2}}));
  s.add(3, unlimited, "b");
  s.target.repair({});
  EXPECT_EQ(fewest_places(s, places), 2U);
  EXPECT_EQ(s.loads(2).at({3}), 8U) << "the only host at the other place has one of each expert's replicas";
}

TEST(placement_topology, gives_way_where_the_other_place_has_no_room) {
  target_subject s{{4}, 2};
  s.add(1, unlimited, "a");
  s.add(2, unlimited, "a");
  s.add(3, 2, "b");
  s.target.repair({});
  expect_sound(s);
  for (const auto& [expert, hosts] : s.hosts())
    EXPECT_EQ(hosts.size(), 2U) << "a second host beside the first is better than none";
  EXPECT_EQ(s.loads(0).at({3}), 2U);
}

TEST(placement_topology, hosts_that_say_nothing_are_apart) {
  target_subject s{{6}, 2};
  for (std::uint64_t id = 1; id <= 3; ++id)
    s.add(id);
  s.target.repair({});
  for (const auto& [host, count] : s.loads(0))
    EXPECT_EQ(count, 4U);
}

} // namespace
} // namespace troupe
