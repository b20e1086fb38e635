// Changes from one view to the next, and changes that do not fit.
#include "actors/cluster/view_change.hpp"

#include <functional>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "actors/scheduler/view_desk.hpp"
#include "tests/unit/actors/placement_edits.hpp"

namespace troupe {
namespace {

worker_address worker(std::uint64_t id, const std::string& endpoint = "") {
  return {{id}, worker_role::expert, "expert-" + std::to_string(id), endpoint};
}

layer_placement_ptr layer_on(std::uint64_t host, std::uint64_t version = 1) {
  return shared_layer({version, {{{{host}}}}});
}

/// Term 3, epoch 7: three layers on workers 11, 13 and 15.
cluster_view sample() {
  return {
      {3, 7, {layer_on(11), layer_on(13), layer_on(15)}}, {worker(11), worker(13), worker(15)}, true, 500};
}

/// The change from there to epoch 8, without other differences.
view_change step() {
  view_change change;
  change.term = 3;
  change.from_epoch = 7;
  change.epoch = 8;
  change.num_layers = 3;
  change.ready = true;
  change.max_model_len = 500;
  return change;
}

TEST(view_change, changes_what_it_names_and_shares_the_rest) {
  auto view = sample();
  auto change = step();
  change.layers = {{1, layer_on(14, 2)}};
  change.joined = {worker(10), worker(13, "elsewhere:1"), worker(14)};
  change.left = {{11}};
  change.ready = false;
  change.max_model_len = 400;
  ASSERT_EQ(apply(view, change), view_misfit::none);
  const auto before = sample();
  EXPECT_EQ(view, (cluster_view{{3, 8, {before.experts.layers[0], layer_on(14, 2), before.experts.layers[2]}},
                                {worker(10), worker(13, "elsewhere:1"), worker(14), worker(15)},
                                false,
                                400}));
  EXPECT_EQ(view.experts.layers[1], change.layers[0].layer) << "the same object";
}

TEST(view_change, an_empty_change_is_a_new_epoch) {
  auto view = sample();
  ASSERT_EQ(apply(view, step()), view_misfit::none);
  auto expected = sample();
  expected.experts.epoch = 8;
  EXPECT_EQ(view, expected);
}

TEST(view_change, a_whole_one_replaces_any_view) {
  cluster_view next{{4, 1, {layer_on(21), layer_on(22)}}, {worker(21), worker(22)}, false, 300};
  const auto [for_attention, for_gateways] = whole_view(next);
  for (auto view : {sample(), cluster_view{}}) {
    ASSERT_EQ(apply(view, *for_attention), view_misfit::none);
    EXPECT_EQ(view, next);
    ASSERT_EQ(apply(view, *for_gateways), view_misfit::none);
    next.experts.layers.clear();
    EXPECT_EQ(view, next) << "gateways are told of no layers";
    next.experts.layers = {layer_on(21), layer_on(22)};
  }
}

TEST(view_change, another_model_has_other_layers) {
  auto view = sample();
  auto change = step();
  change.num_layers = 2;
  change.layers = {{0, layer_on(13, 2)}, {1, layer_on(15, 2)}};
  ASSERT_EQ(apply(view, change), view_misfit::none);
  EXPECT_EQ(view.experts.layers.size(), 2U);
  change = step();
  change.from_epoch = 8;
  change.epoch = 9;
  change.num_layers = 4;
  change.layers = {{2, layer_on(11, 3)}, {3, layer_on(11, 3)}};
  ASSERT_EQ(apply(view, change), view_misfit::none);
  EXPECT_EQ(view.experts.layers.size(), 4U);
}

struct misfit_case {
  std::string name;
  std::function<void(view_change&)> spoil;
  view_misfit expected;
};

class view_misfits : public ::testing::TestWithParam<misfit_case> {};

TEST_P(view_misfits, are_told_and_change_nothing) {
  auto change = step();
  change.layers = {{0, layer_on(13, 2)}, {2, layer_on(11, 2)}};
  change.joined = {worker(12), worker(14)};
  change.left = {{11}, {13}};
  auto view = sample();
  ASSERT_EQ(apply(view, change), view_misfit::none) << "it is sound before it is spoilt";
  view = sample();
  GetParam().spoil(change);
  EXPECT_EQ(apply(view, change), GetParam().expected);
  EXPECT_EQ(view, sample());
}

INSTANTIATE_TEST_SUITE_P(
    all, view_misfits,
    ::testing::Values(
        misfit_case{"an_older_term", [](auto& x) { x.term = 2; }, view_misfit::term},
        misfit_case{"a_newer_term", [](auto& x) { x.term = 4; }, view_misfit::term},
        misfit_case{"one_was_missed", [](auto& x) { x.from_epoch = 8, x.epoch = 9; }, view_misfit::epoch},
        misfit_case{"an_older_one", [](auto& x) { x.from_epoch = 6, x.epoch = 7; }, view_misfit::epoch},
        misfit_case{"it_leads_nowhere", [](auto& x) { x.epoch = 7; }, view_misfit::epoch},
        misfit_case{"it_leads_back", [](auto& x) { x.epoch = 6; }, view_misfit::epoch},
        misfit_case{"nothing_is_published", [](auto& x) { x.from_epoch = x.epoch = 0; }, view_misfit::epoch},
        misfit_case{"a_layer_behind_the_last", [](auto& x) { x.layers[1].index = 3; }, view_misfit::layers},
        misfit_case{"fewer_layers_than_it_changes", [](auto& x) { x.num_layers = 2; }, view_misfit::layers},
        misfit_case{"a_layer_is_missing", [](auto& x) { x.num_layers = 4; }, view_misfit::layers},
        misfit_case{"more_layers_than_there_is_memory_for", [](auto& x) { x.num_layers = UINT32_MAX; },
                    view_misfit::layers},
        misfit_case{"a_layer_twice", [](auto& x) { x.layers[1].index = 0; }, view_misfit::layers},
        misfit_case{"layers_out_of_order", [](auto& x) { std::swap(x.layers[0], x.layers[1]); },
                    view_misfit::layers},
        misfit_case{"no_layer", [](auto& x) { x.layers[1].layer = nullptr; }, view_misfit::layers},
        misfit_case{"a_stranger_leaves", [](auto& x) { x.left[1] = {14}; }, view_misfit::workers},
        misfit_case{"one_leaves_twice", [](auto& x) { x.left[1] = {11}; }, view_misfit::workers},
        misfit_case{"leaving_out_of_order", [](auto& x) { std::swap(x.left[0], x.left[1]); },
                    view_misfit::workers},
        misfit_case{"one_joins_twice", [](auto& x) { x.joined[1] = x.joined[0]; }, view_misfit::workers},
        misfit_case{"joining_out_of_order", [](auto& x) { std::swap(x.joined[0], x.joined[1]); },
                    view_misfit::workers},
        misfit_case{"whole_without_all_layers", [](auto& x) { x.from_epoch = 0, x.left.clear(); },
                    view_misfit::layers},
        misfit_case{"one_leaves_a_whole_view",
                    [](auto& x) { x.from_epoch = 0, x.num_layers = 0, x.layers.clear(); },
                    view_misfit::workers}),
    [](const auto& param_info) { return param_info.param.name; });

TEST(view_change, many_in_a_row_lead_where_one_whole_view_does) {
  std::mt19937 random{7}; // NOLINT(cert-msc51-cpp): the same test each time
  const auto dice = [&random](std::uint32_t sides) { return static_cast<std::uint32_t>(random() % sides); };
  cluster_view followed;
  member_table members;
  view_desk views;
  placement next{1, 0, {layer_on(1), layer_on(1), layer_on(1), layer_on(1)}};
  for (std::uint64_t epoch = 1; epoch <= 300; ++epoch) {
    if (epoch == 200)
      next.term = 2;
    next.epoch = epoch;
    std::vector<std::uint32_t> changed;
    for (std::uint32_t index = 0; index < next.layers.size(); ++index)
      if (epoch == 1 || dice(3) == 0) {
        changed.push_back(index);
        next.layers[index] = layer_on(dice(20), epoch);
      }
    for (std::uint32_t times = dice(6); times > 0; --times) {
      const worker_id id{1 + dice(20)};
      if (dice(2) == 0) {
        members.remove(id);
      } else {
        worker_hello hello;
        hello.address = worker(id.value, "host:" + std::to_string(dice(3)));
        members.join(hello, {});
      }
      views.worker_changed(id);
    }
    const auto ready = dice(2) == 0;
    const auto max_model_len = dice(1000);
    const auto messages = views.publish({next, changed}, members, {ready, max_model_len}, {}, {});
    const auto& change = *messages.with_layers;
    ASSERT_EQ(apply(followed, change), view_misfit::none) << epoch;
    cluster_view whole;
    ASSERT_EQ(apply(whole, *views.whole(worker_role::attention)), view_misfit::none);
    EXPECT_EQ(followed, whole);
    EXPECT_EQ(followed.experts, next);
    EXPECT_EQ(followed.ready, ready);
    EXPECT_EQ(followed.max_model_len, max_model_len);
    ASSERT_EQ(followed.workers.size(), members.all().size());
    auto listed = followed.workers.begin();
    for (const auto& [id, member] : members.all())
      EXPECT_EQ(*listed++, member.hello.address) << epoch;
    if (epoch != 1 && epoch != 200) {
      EXPECT_EQ(change.from_epoch, epoch - 1);
      EXPECT_EQ(change.layers.size(), changed.size());
    }
    auto bare = change;
    bare.num_layers = 0;
    bare.layers.clear();
    EXPECT_EQ(*messages.without_layers, bare);
  }
}

TEST(view_desk, names_only_workers_that_are_other_than_before) {
  member_table members;
  view_desk views;
  for (std::uint64_t id : {11U, 12U}) {
    worker_hello hello;
    hello.address = worker(id);
    members.join(hello, {});
  }
  views.publish({{1, 1, {}}, {}}, members, {}, {}, {});
  views.worker_changed({11}); // has joined again, from the same place
  views.worker_changed({13}); // has come and gone
  const auto change = views.publish({{1, 2, {}}, {}}, members, {true, 9}, {}, {}).with_layers;
  view_change expected;
  expected.term = 1;
  expected.from_epoch = 1;
  expected.epoch = 2;
  expected.ready = true;
  expected.max_model_len = 9;
  EXPECT_EQ(*change, expected);
}

TEST(held_view, takes_what_follows_and_knows_what_it_has_missed) {
  held_view held;
  ASSERT_EQ(held.take(*whole_view(sample()).with_layers, 3), held_view::outcome::taken);
  EXPECT_EQ(held.view(), sample());
  EXPECT_EQ(held.take(*whole_view(sample()).with_layers, 3), held_view::outcome::old);
  EXPECT_FALSE(held.is_behind());
  auto second = step();
  second.from_epoch = 8;
  second.epoch = 9;
  EXPECT_EQ(held.take(second, 3), held_view::outcome::misfit);
  EXPECT_EQ(held.view(), sample());
  EXPECT_TRUE(held.is_behind());
  EXPECT_EQ(held.take(step(), 3), held_view::outcome::taken);
  EXPECT_TRUE(held.is_behind()) << "the second is still missing";
  EXPECT_EQ(held.take(second, 3), held_view::outcome::taken);
  EXPECT_FALSE(held.is_behind());
  EXPECT_EQ(held.view().experts.epoch, 9U);
}

TEST(held_view, older_terms_and_nothing_are_old) {
  held_view held;
  EXPECT_EQ(held.take({}, 0), held_view::outcome::old);
  EXPECT_EQ(held.take(*whole_view(sample()).with_layers, 4), held_view::outcome::old);
  EXPECT_EQ(held.view(), cluster_view{});
  EXPECT_FALSE(held.is_behind());
}

} // namespace
} // namespace troupe
