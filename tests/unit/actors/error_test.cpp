#include "actors/protocol/error.hpp"

#include <set>

#include <caf/sec.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/cluster/directory.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

namespace troupe {
namespace {

using error_test = deterministic_system;

TEST_F(error_test, renders_code_and_text) {
  const auto error = make_error(ec::overloaded, "256 requests wait already");
  EXPECT_EQ(system.render(error), "troupe: overloaded: 256 requests wait already");
  EXPECT_EQ(code_of(error), ec::overloaded);
  EXPECT_EQ(text_of(error), "256 requests wait already");
}

TEST_F(error_test, other_errors_are_none_of_ours) {
  const caf::error timeout = caf::sec::request_timeout;
  EXPECT_EQ(code_of(timeout), ec::none);
  EXPECT_NE(text_of(timeout), "");
  EXPECT_EQ(code_of(caf::error{}), ec::none);
  EXPECT_EQ(text_of(caf::error{}), "");
}

TEST_F(error_test, knows_the_ways_in_which_a_peer_is_gone) {
  EXPECT_TRUE(is_peer_down(caf::sec::request_receiver_down));
  EXPECT_TRUE(is_peer_down(caf::exit_reason::remote_link_unreachable));
  EXPECT_TRUE(is_peer_down(make_error(ec::peer_down, "")));
  EXPECT_FALSE(is_peer_down(caf::sec::request_timeout));
  EXPECT_FALSE(is_peer_down(caf::error{}));
}

TEST_F(error_test, every_code_and_role_has_its_own_name) {
  std::set<std::string> names;
  for (std::uint8_t code = 0; code <= static_cast<std::uint8_t>(ec::model_broken); ++code)
    EXPECT_TRUE(names.insert(to_string(static_cast<ec>(code))).second);
  EXPECT_EQ(to_string(static_cast<ec>(200)), "unknown_200") << "from a newer peer";
  for (auto role : {worker_role::gateway, worker_role::attention, worker_role::expert})
    EXPECT_TRUE(names.insert(to_string(role)).second);
  EXPECT_EQ(to_string(static_cast<worker_role>(9)), "unknown_9");
}

TEST_F(error_test, a_directory_finds_what_is_published_and_names_what_is_not) {
  const auto directory = root(system.spawn(local_directory));
  const auto service =
      root(system.spawn([](caf::event_based_actor*) -> caf::behavior { return {[](int) {}}; }));
  const auto ask_for = [&](const std::string& name) {
    return ask<caf::strong_actor_ptr>(directory, caf::resolve_atom_v, std::string{}, name);
  };
  const auto missing = ask_for("expert-7");
  ASSERT_FALSE(missing);
  EXPECT_EQ(system.render(missing.error()), "troupe: peer_down: no service 'expert-7' in this process");
  caf::anon_send(directory, caf::publish_atom_v, std::string{"expert-7"},
                 caf::actor_cast<caf::strong_actor_ptr>(service));
  EXPECT_EQ(*ask_for("expert-7"), service);
  caf::anon_send(directory, caf::publish_atom_v, std::string{"expert-7"}, caf::strong_actor_ptr{});
  EXPECT_FALSE(ask_for("expert-7"));
}

} // namespace
} // namespace troupe
