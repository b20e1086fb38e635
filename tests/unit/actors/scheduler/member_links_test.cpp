// Which actors the scheduler monitors, and what each is sent.
#include <gtest/gtest.h>

#include "actors/protocol/error.hpp"
#include "actors/scheduler/member_links.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/scheduler/scheduler_stand_in.hpp"
#include "tests/unit/actors/scheduler/start_time.hpp"

namespace troupe {
namespace {

class member_links_test : public stand_in_system {
 protected:
  struct peer {
    fake_member_actor actor;
    std::shared_ptr<fake_member_log> log = std::make_shared<fake_member_log>();
  };

  void SetUp() override {
    stand_in_system::SetUp();
    act([this](scheduler_interface::pointer self) {
      links = member_links{self};
      self->set_down_handler([this](const caf::down_msg& down) { downs.push_back(down.source); });
    });
  }

  void TearDown() override {
    links = member_links{};
    stand_in_system::TearDown();
  }

  static caf::strong_actor_ptr pointer_to(const peer& who) {
    return caf::actor_cast<caf::strong_actor_ptr>(who.actor);
  }

  static caf::actor_addr address_of(const peer& who) { return caf::actor_cast<caf::actor_addr>(who.actor); }

  peer add(const worker_hello& hello) {
    peer result;
    result.actor = root(system.spawn(fake_member, result.log));
    members.join(hello, start_time);
    act([&] { links.add(hello.address.id, pointer_to(result)); });
    return result;
  }

  void trace(const trace_command& command) {
    std::shared_ptr<trace_answers> answers;
    act([&] {
      answers =
          links.send_trace(command, members, [this](const trace_receipt& all) { receipts.push_back(all); });
    });
    EXPECT_TRUE(receipts.empty()) << "one is still missing";
    answers->add({{{"scheduler", ""}}});
  }

  member_links links;
  member_table members;
  std::vector<caf::actor_addr> downs;
  std::vector<trace_receipt> receipts;
};

TEST_F(member_links_test, the_death_of_a_member_is_noticed_until_it_is_removed) {
  EXPECT_TRUE(links.is_empty());
  const auto one = add(expert_hello(11));
  const auto other = add(expert_hello(12));
  EXPECT_EQ(links.ids(), (std::set<worker_id>{{11}, {12}}));
  act([this] { links.remove({12}); });
  kill(other.actor);
  EXPECT_TRUE(downs.empty());
  kill(one.actor);
  ASSERT_EQ(downs.size(), 1U);
  EXPECT_EQ(links.find(downs[0]), worker_id{11});
  EXPECT_EQ(links.find(address_of(other)), std::nullopt);
}

TEST_F(member_links_test, a_member_that_joins_again_has_one_link) {
  const auto before = add(expert_hello(11));
  const auto after = add(expert_hello(11));
  kill(before.actor);
  EXPECT_TRUE(downs.empty());
  act([this] {
    links.send_fence({11});
    links.send_ready({11});
  });
  EXPECT_EQ(before.log->fences, 0U);
  EXPECT_EQ(after.log->fences, 1U);
  EXPECT_EQ(after.log->readies, 1U);
  kill(after.actor);
  EXPECT_EQ(downs.size(), 1U);
}

TEST_F(member_links_test, a_gateway_that_asks_often_is_monitored_once) {
  peer gateway;
  gateway.actor = root(system.spawn(fake_member, gateway.log));
  for (int times = 0; times < 2; ++times)
    act([&] { links.add_gateway(pointer_to(gateway)); });
  kill(gateway.actor);
  ASSERT_EQ(downs.size(), 1U);
  EXPECT_TRUE(links.forget_gateway(downs[0]));
  EXPECT_FALSE(links.forget_gateway(downs[0]));
}

TEST_F(member_links_test, each_role_is_sent_its_form_of_the_view) {
  const auto attention = add(attention_hello(1));
  const auto host = add(expert_hello(11));
  const auto gateway = add(gateway_hello(70));
  cluster_view view;
  view.experts.epoch = 1;
  view.experts.layers = {std::make_shared<const layer_placement>(layer_placement{1, {{{{11}}}}})};
  act([&] { links.send_views(whole_view(view), members); });
  ASSERT_EQ(attention.log->changes.size(), 1U);
  EXPECT_EQ(attention.log->changes[0].num_layers, 1U);
  ASSERT_EQ(gateway.log->changes.size(), 1U);
  EXPECT_EQ(gateway.log->changes[0].num_layers, 0U);
  EXPECT_TRUE(host.log->changes.empty()) << "it goes by its orders";
}

TEST_F(member_links_test, an_order_ends_with_a_report_or_an_error) {
  const auto host = add(expert_hello(11));
  std::vector<std::pair<std::vector<expert_id>, std::string>> outcomes;
  const auto note = [&](const host_report* report, const std::string& error) {
    outcomes.emplace_back(report == nullptr ? std::vector<expert_id>{} : report->hosted, error);
  };
  const auto order = [&](std::uint64_t number) {
    act([&] { links.send_order({11}, {1, number, {{0, 3}}, {}}, note); });
  };
  order(1);
  host.log->order_error = "no space";
  host.log->hosted.clear();
  order(2);
  kill(host.actor);
  order(3);
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_EQ(outcomes[0], std::pair(std::vector<expert_id>{{0, 3}}, std::string{}));
  EXPECT_EQ(outcomes[1], std::pair(std::vector<expert_id>{}, std::string{"no space"}));
  EXPECT_TRUE(outcomes[2].first.empty());
  EXPECT_FALSE(outcomes[2].second.empty());
}

TEST_F(member_links_test, a_trace_command_is_answered_when_all_have_obeyed_or_failed) {
  const auto one = add(expert_hello(11));
  const auto gone = add(expert_hello(12));
  kill(gone.actor);
  trace({5});
  ASSERT_EQ(receipts.size(), 1U);
  std::map<std::string, std::string> errors;
  for (const auto& process : receipts[0].processes)
    errors[process.name] = process.error;
  EXPECT_EQ(errors.size(), 3U);
  EXPECT_EQ(errors["fake"], "");
  EXPECT_EQ(errors["expert-12"].find("it does not answer: "), 0U);
  EXPECT_EQ(errors["scheduler"], "");
  act([this] { links.send_trace({11}, {6}); });
  EXPECT_EQ(one.log->traced, (std::vector<trace_command>{{5}, {6}}));
}

} // namespace
} // namespace troupe
