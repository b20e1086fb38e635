// A message for many receivers is encoded once, and read as its plain value.
#include "actors/protocol/encoded_once_layout.hpp"

#include <thread>
#include <vector>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/message.hpp>
#include <gtest/gtest.h>

#include "actors/protocol/view_messages.hpp"
#include "tests/unit/actors/deterministic_system.hpp"
#include "tests/unit/actors/placement_edits.hpp"

namespace troupe {
namespace {

/// Counts how often it is written.
struct counted {
  std::uint64_t value = 0;
  std::vector<std::uint32_t> more;
  std::shared_ptr<int> times = std::make_shared<int>(0);

  bool operator==(const counted& other) const { return value == other.value && more == other.more; }
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, counted& x) {
  if (Inspector::reads_state)
    ++*x.times;
  return f(x.value, x.more);
}

template <class T>
std::vector<char> bytes_of(const T& x) {
  std::vector<char> result;
  caf::binary_serializer sink{nullptr, result};
  EXPECT_FALSE(sink(const_cast<T&>(x))); // CAF's serializers take references
  return result;
}

view_change sample_change() {
  view_change change;
  change.term = 2;
  change.from_epoch = 3;
  change.epoch = 4;
  change.num_layers = 3;
  change.layers = {{1, shared_layer({5, {{{{11}, {12}}}, {}}})}};
  change.joined = {{{11}, worker_role::expert, "expert-11", "10.0.0.1:7001"}};
  change.left = {{12}};
  change.ready = true;
  change.max_model_len = 500;
  return change;
}

TEST(encoded_once, many_receivers_cost_one_encoding) {
  const encoded_once<counted> original{{7, {1, 2, 3}}};
  const auto times = original->times;
  EXPECT_EQ(*times, 0) << "receivers in this process need no bytes";
  const auto first = bytes_of(original);
  for (int receiver = 0; receiver < 64; ++receiver) {
    const auto copy = original;
    EXPECT_EQ(bytes_of(copy), first);
  }
  EXPECT_EQ(*times, 1);
}

TEST(encoded_once, senders_on_many_threads_encode_it_once) {
  const encoded_once<counted> original{{7, {1, 2, 3}}};
  const auto times = original->times;
  std::vector<std::vector<char>> sent(8);
  std::vector<std::thread> senders;
  senders.reserve(sent.size());
  for (auto& bytes : sent)
    senders.emplace_back([&original, &bytes] { bytes = bytes_of(original); });
  for (auto& sender : senders)
    sender.join();
  EXPECT_EQ(*times, 1);
  for (const auto& bytes : sent)
    EXPECT_EQ(bytes, bytes_of(*original));
}

TEST(encoded_once, is_the_value_itself_on_the_wire) {
  const auto change = sample_change();
  const auto bytes = bytes_of(shared_view_change{change});
  EXPECT_EQ(bytes, bytes_of(change));
  shared_view_change copy;
  caf::binary_deserializer source{nullptr, bytes};
  ASSERT_FALSE(source(copy));
  EXPECT_EQ(*copy, change);
  EXPECT_EQ(source.remaining(), 0U);
}

TEST(encoded_once, what_cannot_be_read_leaves_the_receiver_as_it_was) {
  const auto bytes = bytes_of(shared_view_change{sample_change()});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<char> part{bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)};
    shared_view_change copy;
    caf::binary_deserializer source{nullptr, part};
    EXPECT_TRUE(source(copy)) << length << " bytes";
    EXPECT_EQ(*copy, view_change{});
  }
}

TEST(encoded_once, equal_values_are_equal) {
  const shared_view_change one{sample_change()};
  auto other = sample_change();
  EXPECT_EQ(one, shared_view_change{other});
  other.ready = false;
  EXPECT_NE(one, shared_view_change{other});
  EXPECT_EQ(shared_view_change{}, shared_view_change{});
}

class encoded_once_message : public deterministic_system {};

TEST_F(encoded_once_message, a_receiver_in_this_process_gets_the_same_object) {
  const shared_view_change sent{sample_change()};
  const view_change* received = nullptr;
  const auto receiver = root(system.spawn([&received]() -> caf::behavior {
    return {[&received](const shared_view_change& change) { received = &*change; }};
  }));
  caf::anon_send(receiver, sent);
  run();
  EXPECT_EQ(received, &*sent);
}

} // namespace
} // namespace troupe
