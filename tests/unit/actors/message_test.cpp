// Every message type survives the wire, and its layout is the agreed one: it changes with its version, and
// only in allowed ways.
#include <bit>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/message.hpp>
#include <gtest/gtest.h>

#include "actors/protocol/defaults.hpp"
#include "actors/protocol/message_kinds.hpp"
#include "actors/protocol/type_ids.hpp"
#include "tests/unit/actors/deterministic_system.hpp"
#include "tests/unit/actors/layout_recorder.hpp"
#include "tests/unit/actors/placement_edits.hpp"

namespace troupe {
namespace {

/// A value in which every field differs from its default, so that a missing field is noticed.
template <class T>
T sample();

template <>
request_id sample() {
  return {0x0123456789abcdef};
}

template <>
worker_id sample() {
  return {0xfedcba9876543210};
}

template <>
expert_id sample() {
  return {7, 300};
}

template <>
sequence_id sample() {
  return {sample<request_id>(), 2};
}

template <>
sampling_params sample() {
  return {.temperature = 0.5F,
          .top_k = 40,
          .top_p = 0.75F,
          .min_p = 0.125F,
          .repetition_penalty = 1.25F,
          .presence_penalty = -0.5F,
          .frequency_penalty = 0.25F,
          .seed = 99,
          .max_tokens = 17,
          .min_tokens = 3,
          .num_logprobs = 5,
          .prompt_logprobs = 1,
          .stop_token_ids = {2, 50256},
          .logit_bias = {{11, -100.0F}, {12, 1.5F}},
          .allowed_token_ids = {3, 4},
          .bad_words = {{5}, {6, 7}}};
}

request_context sample_context() {
  return {"my-id", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};
}

template <>
generation_request sample() {
  return {sample<sequence_id>(), 4,     -2, {1, 2, 3}, {4, 5}, sample<sampling_params>(),
          sample_context(),      "salt"};
}

generated_token sample_token(std::int32_t id) {
  return {id, -0.5F, 2, {{id, -0.5F, 2}, {8, -0.25F, 1}}};
}

template <>
token_update sample() {
  return {sample<sequence_id>(), 3, 5, {sample_token(6)}, {sample_token(7)}, finish_reason::stop, 96};
}

template <>
sequence_failed sample() {
  return {sample<sequence_id>(), 3, ec::engine_failed, "out of memory"};
}

payload sample_payload() {
  std::vector<std::byte> bytes;
  for (int value = 0; value < 24; ++value)
    bytes.push_back(static_cast<std::byte>(value * 7));
  return payload::copy_of(bytes);
}

template <>
expert_batch sample() {
  return {1, 2, 3, 4, 2, {5, 9}, {0, 1, 3}, {0, 0, 1}, sample_payload(), 6};
}

template <>
expert_result sample() {
  return {1, sample_payload(), 1000, 2000, 3000, 4000, 5000};
}

template <>
worker_address sample() {
  return {sample<worker_id>(), worker_role::attention, "attention-1", "10.0.0.1:7001"};
}

template <>
worker_hello sample() {
  return {sample<worker_address>(),
          "model",
          "cpu/bfloat16",
          "0123456789abcdef",
          3,
          {8, 0, 8},
          {5, 6, 7},
          attention_terms{64, 65536, 4096, {sample<sequence_id>()}}};
}

template <>
cluster_view sample() {
  return {{3, 4, {shared_layer({(3ULL << 32U) + 4, {{{sample<worker_id>()}}, {}}}), shared_layer({1, {}})}},
          {sample<worker_address>()},
          true,
          4096};
}

template <>
view_change sample() {
  return {3,
          4,
          5,
          2,
          {{0, shared_layer({(3ULL << 32U) + 5, {{{sample<worker_id>()}}, {}}})}, {1, shared_layer({1, {}})}},
          {sample<worker_address>()},
          {{17}},
          true,
          4096};
}

template <>
shared_view_change sample() {
  return shared_view_change{sample<view_change>()};
}

template <>
worker_welcome sample() {
  return {3, "model", sample<shared_view_change>(), true};
}

template <>
host_order sample() {
  return {3, 8, {sample<expert_id>(), {1, 2}}, {{sample<worker_address>(), {{1, 2}}}}};
}

template <>
weights_read sample() {
  return {sample<worker_id>(), 3, "model", "cpu", sample<expert_id>(), 256, 512};
}

template <>
weights_chunk sample() {
  const std::byte bytes[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  return {"layout", 259, 77, 256, payload::copy_of(bytes)};
}

template <>
host_report sample() {
  return {3, 8, {sample<expert_id>()}, "no space"};
}

template <>
lease_renewal sample() {
  return {sample<worker_id>(),
          3,
          4,
          5,
          6,
          {8, 9, 10},
          attention_load{7, 11, {{sample<worker_id>(), 12}}, {13}, 15, 16}};
}

template <>
admission_request sample() {
  return {
      sample<request_id>(), 100,       200, 50, 3, -1, 5000, 2, true, {sample<worker_id>()}, {77}, "alice", 3,
      sample_context(),     {{14, 64}}};
}

template <>
assignment sample() {
  return {sample<request_id>(), sample<worker_address>(), 3, 700};
}

template <>
expert_host_status sample() {
  return {{sample<expert_id>()}, 1, 2, 3, 4};
}

template <>
attention_status sample() {
  return {1, 2, 3, 4, 5, 6, 7, 8, 9};
}

template <>
scheduler_status sample() {
  return {3,
          true,
          "model",
          sample<cluster_view>().experts,
          {{sample<worker_address>(),
            sample<lease_renewal>(),
            12,
            {sample<expert_id>()},
            "cpu/bfloat16",
            64,
            65536,
            4096}},
          9,
          10};
}

template <>
activation_report sample() {
  return {sample<worker_id>(), "model", {2, 0, 1}, 5, {"one", "another"}};
}

template <>
activation_receipt sample() {
  return {7, 6};
}

template <>
history_snapshot sample() {
  return {"model", {2, 0}, 600'000, 5000, 8, 9, {{0.5, 1e-310}, {}}, {{sample<worker_id>(), 3, 4, "window"}}};
}

template <>
placement_command sample() {
  return {placement_action::move, true, {{sample<expert_id>(), {"expert-1"}}}, "expert-0", 2};
}

template <>
placement_change sample() {
  return {3, "imbalance", 4, 500, {6, 7, 8, 9}, {10, 11, 12, 13}, {{sample<expert_id>(), {"a"}, {"b", "c"}}}};
}

template <>
rebalancer_status sample() {
  return {planner_mode::paused,
          {{sample<placement_change>(), 1, 2, 3, 4}},
          {{sample<expert_id>(), {"a"}}},
          {{sample<expert_id>(), {"2"}}},
          {"b"},
          5,
          6};
}

template <>
trace_command sample() {
  return {10'000};
}

template <>
trace_receipt sample() {
  return {{{"expert-0", ""}, {"scheduler", "no folder"}}};
}

std::string hex(const std::vector<char>& bytes) {
  static constexpr auto digits = "0123456789abcdef";
  std::string result;
  for (auto byte : bytes) {
    auto value = static_cast<unsigned char>(byte);
    result += digits[value >> 4U];
    result += digits[value & 15U];
  }
  return result;
}

/// name → version → agreed layout. To change a kind of message, raise its version in
/// actors/protocol/message_kinds.cpp and add the line that the failing test prints. Lines of older versions
/// stay as long as their releases can be upgraded.
std::map<std::string, std::map<int, std::string>> agreed_layouts() {
  std::map<std::string, std::map<int, std::string>> result;
  std::ifstream in{std::string{TROUPE_SOURCE_DIR} + "/tests/unit/actors/message_layouts.txt"};
  std::string name;
  int version = 0;
  std::string layout;
  while (in >> name >> version >> layout)
    result[name][version] = layout;
  return result;
}

TEST(message_test, names_of_kinds_fit_into_an_introduction) {
  for (const auto& kind : message_kinds())
    EXPECT_LE(kind.name.size(), 64U) << kind.name;
}

wire::version_range versions_of(const std::string& name) {
  for (const auto& kind : message_kinds())
    if (kind.name == name)
      return kind.versions;
  ADD_FAILURE() << name << " is no kind of message";
  return {};
}

template <class T>
class message_test : public deterministic_system {};

// All of troupe_actors' types, in the order of their ids.
using message_types =
    ::testing::Types<request_id, worker_id, expert_id, sequence_id, generation_request, token_update,
                     sequence_failed, expert_batch, expert_result, worker_address, worker_hello,
                     worker_welcome, cluster_view, host_order, host_report, lease_renewal, admission_request,
                     assignment, expert_host_status, attention_status, scheduler_status, shared_view_change,
                     activation_report, activation_receipt, history_snapshot, placement_command,
                     placement_change, rebalancer_status, weights_read, weights_chunk, trace_command,
                     trace_receipt>;

TYPED_TEST_SUITE(message_test, message_types);

TYPED_TEST(message_test, is_equal_after_a_round_trip) {
  const auto original = sample<TypeParam>();
  ASSERT_NE(original, TypeParam{});
  std::vector<char> bytes;
  caf::binary_serializer sink{this->system, bytes};
  auto message = caf::make_message(original);
  ASSERT_FALSE(sink(message));
  EXPECT_GT(bytes.size(), sizeof(std::uint32_t)) << "an unregistered type serialises to nothing";
  caf::message copy;
  caf::binary_deserializer source{this->system, bytes};
  ASSERT_FALSE(source(copy));
  ASSERT_TRUE(copy.match_elements<TypeParam>());
  EXPECT_EQ(copy.get_as<TypeParam>(0), original);
  EXPECT_EQ(source.remaining(), 0U);
}

TYPED_TEST(message_test, has_the_agreed_layout) {
  auto value = sample<TypeParam>();
  std::vector<char> bytes;
  caf::binary_serializer sink{this->system, bytes};
  ASSERT_FALSE(sink(value));
  const std::string name = caf::type_name<TypeParam>::value;
  const auto versions = versions_of(name);
  const auto layout = layout_of(this->system, value);
  EXPECT_EQ(hex(bytes_of(layout)), hex(bytes)) << "the recorder and the serializer disagree";
  auto agreed = agreed_layouts()[name];
  EXPECT_EQ(agreed[versions.newest], layout) << "LAYOUT " << name << ' ' << versions.newest << ' ' << layout;
  EXPECT_EQ(agreed.begin()->first, versions.oldest) << "lines of versions that are not read, or too few";
  EXPECT_EQ(agreed.rbegin()->first, versions.newest) << "lines of versions that do not exist";
}

TYPED_TEST(message_test, reads_all_versions_that_it_says_it_reads) {
  const std::string name = caf::type_name<TypeParam>::value;
  const auto versions = versions_of(name);
  auto agreed = agreed_layouts()[name];
  for (int version = versions.oldest; version <= versions.newest; ++version) {
    SCOPED_TRACE(name + " " + std::to_string(version));
    ASSERT_TRUE(agreed.contains(version));
    if (version > versions.oldest) {
      EXPECT_TRUE(extends(agreed[version - 1], agreed[version]))
          << "more has changed than fields at the end: raise the oldest version too";
    }
    const auto bytes = bytes_of(agreed[version]);
    caf::binary_deserializer source{this->system, bytes};
    TypeParam value{};
    ASSERT_FALSE(source(value));
    EXPECT_EQ(source.remaining(), 0U);
  }
}

TYPED_TEST(message_test, a_truncated_message_is_an_error) {
  auto value = sample<TypeParam>();
  std::vector<char> bytes;
  caf::binary_serializer sink{this->system, bytes};
  ASSERT_FALSE(sink(value));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    std::vector<char> part{bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)};
    caf::binary_deserializer source{this->system, part};
    TypeParam target{};
    EXPECT_TRUE(source(target)) << "after " << length << " of " << bytes.size() << " bytes";
  }
}

class floats_on_the_wire : public deterministic_system {};

TEST_F(floats_on_the_wire, keep_every_bit) {
  using limits = std::numeric_limits<float>;
  for (const float value : {-0.0F, limits::denorm_min(), -limits::denorm_min(), 1e-40F, limits::min(), 0.1F,
                            limits::max(), limits::infinity(), -limits::infinity(), limits::quiet_NaN()}) {
    sampling_params original;
    original.temperature = original.top_p = original.min_p = original.repetition_penalty = value;
    original.presence_penalty = original.frequency_penalty = value;
    original.logit_bias = {{3, value}};
    generated_token token{1, value, 2, {{3, value, 4}}};
    std::vector<char> bytes;
    caf::binary_serializer sink{system, bytes};
    ASSERT_FALSE(sink(original, token));
    sampling_params copy;
    generated_token token_copy;
    caf::binary_deserializer source{system, bytes};
    ASSERT_FALSE(source(copy, token_copy));
    for (const float arrived : {copy.temperature, copy.top_p, copy.min_p, copy.repetition_penalty,
                                copy.presence_penalty, copy.frequency_penalty, copy.logit_bias.at(0).bias,
                                token_copy.logprob, token_copy.top.at(0).logprob})
      EXPECT_EQ(std::bit_cast<std::uint32_t>(arrived), std::bit_cast<std::uint32_t>(value)) << value;
  }
}

TEST(kinds, are_told_to_peers_each_once) {
  std::set<std::string> names;
  for (const auto& kind : message_kinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_LE(kind.versions.oldest, kind.versions.newest) << kind.name;
  }
  for (const auto& [name, layouts] : agreed_layouts())
    EXPECT_EQ(names.erase(name), 1U) << name << " is no kind of message any more: remove its lines";
  EXPECT_EQ(names, std::set<std::string>{}) << "without a test above";
}

class roles : public deterministic_system {};

/// Beside those of attention workers, which the samples above have. A change of a layout is one of
/// worker_hello and of lease_renewal, too.
TEST_F(roles, have_the_agreed_layouts) {
  role_terms gateway = gateway_terms{{{sample<request_id>(), sample<worker_id>(), 2, 300}}};
  EXPECT_EQ(layout_of(system, gateway), "01(010123456789abcdeffedcba987654321000000002000000000000012c)");
  role_terms expert =
      expert_terms{1U << 30U, 1U << 20U, {sample<expert_id>()}, weight_origin::peers, "node-a"};
  EXPECT_EQ(layout_of(system, expert),
            "03(0000000040000000000000000010000001000000070000012c02066e6f64652d61)");
  role_load of_gateway = gateway_load{{{sample<worker_id>(), 12}}};
  EXPECT_EQ(layout_of(system, of_gateway), "01(01fedcba9876543210000000000000000c)");
  role_load of_expert = expert_load{{13, 14, 15}};
  EXPECT_EQ(layout_of(system, of_expert), "03((000000000000000d000000000000000e000000000000000f))");
}

TEST_F(roles, come_back_as_they_were) {
  auto hello = sample<worker_hello>();
  auto load = sample<lease_renewal>();
  const auto check = [&](role_terms terms, role_load of_role) {
    hello.of_role = std::move(terms);
    load.of_role = std::move(of_role);
    std::vector<char> bytes;
    caf::binary_serializer sink{system, bytes};
    ASSERT_FALSE(sink(hello, load));
    worker_hello same_hello;
    lease_renewal same_load;
    caf::binary_deserializer source{system, bytes};
    ASSERT_FALSE(source(same_hello, same_load));
    EXPECT_EQ(same_hello, hello);
    EXPECT_EQ(same_load, load);
  };
  check({}, {});
  check(gateway_terms{{{{1}, {2}, 3, 4}}}, gateway_load{{{{1}, 2}}});
  check(expert_terms{1, 2, {{3, 4}}, weight_origin::peers, "node-a"}, expert_load{{1, 2, 3}});
}

TEST_F(roles, that_are_not_known_are_skipped) {
  const auto bytes = bytes_of("09(0102030405)07");
  caf::binary_deserializer source{system, bytes};
  role_terms terms = gateway_terms{};
  std::uint8_t behind = 0;
  ASSERT_FALSE(source(terms, behind));
  EXPECT_EQ(terms, role_terms{});
  EXPECT_EQ(behind, 7U);
}

class renewals : public deterministic_system {};

TEST_F(renewals, are_small_however_large_the_model_is) {
  // As sent by an attention worker of a model of any size, with complaints about four hosts.
  lease_renewal load{
      {1}, 2, 3, 64, 256, {4, 5, 6}, attention_load{1U << 20U, 7, {{{1}, 2}, {{3}, 4}, {{5}, 6}, {{7}, 8}}}};
  std::vector<char> bytes;
  caf::binary_serializer sink{system, bytes};
  ASSERT_FALSE(sink(load));
  EXPECT_LT(bytes.size(), 300U);
  std::get<attention_load>(load.of_role).prefixes.resize(defaults::max_prefix_digest);
  std::vector<char> full;
  caf::binary_serializer full_sink{system, full};
  ASSERT_FALSE(full_sink(load));
  EXPECT_GT(full.size(), 8192U);
  EXPECT_LT(full.size(), 8500U) << "a cache full of beginnings";
}

} // namespace
} // namespace troupe
