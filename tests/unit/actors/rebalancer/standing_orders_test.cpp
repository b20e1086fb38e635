// The effect of commands on the standing orders, and what is saved.
#include "actors/rebalancer/standing_orders.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <gtest/gtest.h>

namespace troupe {
namespace {

const std::vector<std::uint32_t> layers{4, 0, 4};
const worker_names workers{"expert-0", "expert-1", "expert-2"};

placement_command about(placement_action action, expert_id expert, std::vector<std::string> hosts = {}) {
  placement_command result;
  result.action = action;
  result.experts = {{expert, std::move(hosts)}};
  return result;
}

placement_command of_worker(placement_action action, std::string worker) {
  placement_command result;
  result.action = action;
  result.worker = std::move(worker);
  return result;
}

/// What is wrong with a command; "" if it is valid.
std::string flaw(const placement_command& command, const standing_orders& orders = {},
                 const std::vector<std::uint32_t>& of = layers) {
  const auto result = apply(orders, command, of, workers);
  return std::holds_alternative<std::string>(result) ? std::get<std::string>(result) : "";
}

standing_orders after(const placement_command& command, const standing_orders& orders = {}) {
  const auto result = apply(orders, command, layers, workers);
  EXPECT_TRUE(std::holds_alternative<standing_orders>(result)) << std::get<std::string>(result);
  return std::get<standing_orders>(result);
}

TEST(standing_orders_test, commands_change_what_they_are_about) {
  const auto pinned = after(about(placement_action::pin, {0, 1}, {"expert-2", "expert-0", "expert-2"}));
  EXPECT_EQ(pinned.pins, (std::map<expert_id, std::vector<std::string>>{{{0, 1}, {"expert-0", "expert-2"}}}));
  EXPECT_EQ(after(about(placement_action::unpin, {0, 1}), pinned), standing_orders{});
  auto two = about(placement_action::replicate, {2, 3});
  two.replicas = 2;
  const auto replicated = after(two, pinned);
  EXPECT_EQ(replicated.replicas, (std::map<expert_id, std::uint32_t>{{{2, 3}, 2}}));
  EXPECT_EQ(after(about(placement_action::unpin, {2, 3}), replicated), pinned);
  EXPECT_TRUE(after(about(placement_action::pin, {2, 3}, {"expert-1"}), replicated).replicas.empty());
  const auto drained = after(of_worker(placement_action::drain, "expert-1"));
  EXPECT_EQ(drained.drained, (std::set<std::string>{"expert-1"}));
  EXPECT_EQ(after(of_worker(placement_action::undrain, "expert-1"), drained), standing_orders{});
  const auto paused = after(of_worker(placement_action::pause, ""));
  EXPECT_TRUE(paused.is_paused);
  EXPECT_EQ(after(of_worker(placement_action::resume, ""), paused), standing_orders{});
  EXPECT_EQ(after(of_worker(placement_action::rebalance, ""), pinned), pinned);
}

TEST(standing_orders_test, what_makes_no_sense_is_refused_with_what_there_is) {
  using enum placement_action;
  EXPECT_EQ(flaw(about(pin, {3, 0}, {"expert-0"})), "the model has no layer 3: its layers are 0 to 2");
  EXPECT_EQ(flaw(about(pin, {0, 4}, {"expert-0"})), "layer 0 has no expert 4: its experts are 0 to 3");
  EXPECT_EQ(flaw(about(pin, {1, 0}, {"expert-0"})), "layer 1 has no expert 0: it is dense");
  EXPECT_EQ(flaw(about(pin, {0, 0}, {"expert-0"}), {}, {}), "no model is known yet: no worker has joined");
  EXPECT_EQ(flaw(about(pin, {0, 0}, {"expert-9"})),
            "no expert worker is named 'expert-9'; there are expert-0, expert-1, expert-2");
  EXPECT_EQ(flaw(about(pin, {0, 0})), "expert 0 of layer 0 needs a host");
  auto move_it = about(placement_action::move, {0, 0}, {"expert-1"});
  move_it.worker = "expert-0";
  EXPECT_EQ(flaw(move_it), "");
  standing_orders orders;
  orders.pins[{0, 0}] = {"expert-0"};
  EXPECT_EQ(flaw(move_it, orders), "expert 0 of layer 0 is pinned; unpin it first");
  orders = {};
  orders.drained = {"expert-1"};
  EXPECT_EQ(flaw(move_it, orders), "'expert-1' is drained; undrain it first");
  EXPECT_EQ(flaw(of_worker(drain, "expert-7")),
            "no expert worker is named 'expert-7'; there are expert-0, expert-1, expert-2");
  orders.drained = {"expert-0", "expert-1"};
  EXPECT_EQ(flaw(of_worker(drain, "expert-2"), orders),
            "'expert-2' is the last worker that may hold experts");
  EXPECT_EQ(flaw(of_worker(undrain, "expert-2"), orders), "'expert-2' is not drained");
  EXPECT_EQ(flaw(about(unpin, {0, 0})), "expert 0 of layer 0 is neither pinned nor replicated");
  EXPECT_EQ(flaw(about(replicate, {0, 0})), "the number of replicas is to be 1 to 4096");
  auto twice = about(assign, {0, 0}, {"expert-0"});
  twice.experts.push_back(twice.experts.front());
  EXPECT_EQ(flaw(twice), "expert 0 of layer 0 is named twice");
  twice.experts.clear();
  EXPECT_EQ(flaw(twice), "1 to 65536 experts are to be named");
}

standing_orders sample() {
  standing_orders orders;
  orders.pins[{0, 1}] = {"expert-0", "expert-2"};
  orders.replicas[{2, 3}] = 5;
  orders.drained = {"expert-1"};
  orders.is_paused = true;
  return orders;
}

TEST(standing_orders_test, come_back_from_their_text) {
  EXPECT_EQ(parse_standing_orders(render(sample())), sample());
  EXPECT_EQ(parse_standing_orders(render({})), standing_orders{});
  EXPECT_TRUE(
      render(sample()).starts_with("troupe-standing-orders 1\npin 0 1 expert-0 expert-2\nreplicas 2 3 5\n"
                                   "drain expert-1\npaused\nchecksum "))
      << render(sample());
}

TEST(standing_orders_test, every_damage_is_an_error) {
  const auto text = render(sample());
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse_standing_orders(text.substr(0, length)), std::runtime_error) << length;
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_THROW(parse_standing_orders(damaged), std::runtime_error) << at;
  }
}

TEST(standing_orders_test, a_store_gives_back_what_it_was_given) {
  const auto directory = ::testing::TempDir() + "troupe-standing-orders";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const standing_orders_store store{directory};
  EXPECT_FALSE(store.load());
  store.save(sample());
  EXPECT_EQ(store.load(), sample());
  std::ofstream(store.path(), std::ios::app) << "drain expert-2\n";
  EXPECT_THROW(store.load(), std::runtime_error);
  std::filesystem::remove_all(directory);
}

} // namespace
} // namespace troupe
