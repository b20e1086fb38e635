// An expert host among orders and batches that overlap in any way: the only error is not_hosted.
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "tests/unit/actors/seeded_links.hpp"
#include "tests/unit/actors/serving_system.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class host_world : public serving_system {
 public:
  explicit host_world(std::uint32_t seed) : links(*this, seed, 2ms) {
    SetUp();
    one = add_host("expert-0");
  }

  ~host_world() override { TearDown(); }

  host_world(const host_world&) = delete;
  host_world& operator=(const host_world&) = delete;

  expert_id some_expert() {
    const auto all = all_experts();
    return all[links.below(static_cast<std::uint32_t>(all.size()))];
  }

  /// @param must  the host has announced that it serves this expert
  void send_batch(expert_id expert, bool must = false) {
    expert_batch batch;
    batch.batch = ++num_batches;
    batch.layer = expert.layer;
    batch.num_rows = 1 + links.below(3);
    batch.experts = {expert.index};
    batch.offsets = {0, batch.num_rows};
    for (std::uint32_t row = 0; row < batch.num_rows; ++row)
      batch.rows.push_back(row);
    batch.activations = payload::allocate(std::size_t{batch.num_rows} * model.shape.row_bytes);
    for (std::uint32_t row = 0; row < batch.num_rows; ++row)
      model.activations(num_batches + row,
                        batch.activations.mutable_data() + std::size_t{row} * model.shape.row_bytes);
    system.spawn([this, batch, must](caf::event_based_actor* self) {
      self->request(one.actor, 600s, batch)
          .then(
              [this, batch](const expert_result& result) {
                ++num_answered;
                ++num_computed;
                expect_right(batch, result);
              },
              [this, batch, must](const caf::error& error) {
                ++num_answered;
                EXPECT_EQ(code_of(error), ec::not_hosted) << text_of(error);
                EXPECT_FALSE(must) << "said to be served: " << text_of(error);
              });
    });
    run();
  }

  void expect_right(const expert_batch& batch, const expert_result& result) const {
    const auto row_bytes = model.shape.row_bytes;
    ASSERT_EQ(result.outputs.size(), batch.rows.size() * row_bytes);
    std::vector<std::byte> right(row_bytes);
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      model.expert(batch.layer, batch.experts[0], batch.activations.data() + i * row_bytes, right.data());
      EXPECT_EQ(std::memcmp(result.outputs.data() + i * row_bytes, right.data(), row_bytes), 0);
    }
  }

  /// @param number  below the newest: of an overtaken message
  void send_order(std::uint64_t of_term, std::uint64_t number, const std::vector<expert_id>& experts_wanted) {
    const auto is_stale = std::pair{of_term, number} < newest;
    newest = std::max(newest, std::pair{of_term, number});
    ++num_orders;
    system.spawn(
        [this, is_stale, order = host_order{of_term, number, experts_wanted}](caf::event_based_actor* self) {
          self->request(one.actor, 600s, order)
              .then(
                  [this, is_stale, order](const host_report& said) {
                    ++num_reports;
                    EXPECT_FALSE(is_stale)
                        << "order " << order.order << " of term " << order.term << " is obeyed";
                    EXPECT_EQ(std::pair(said.term, said.order), std::pair(order.term, order.order));
                    if (said.error.empty())
                      EXPECT_EQ(said.hosted, order.experts);
                  },
                  [this, is_stale](const caf::error& error) {
                    ++num_reports;
                    EXPECT_TRUE(is_stale) << text_of(error);
                    EXPECT_EQ(code_of(error), ec::stale_term);
                  });
        });
    run();
  }

  std::vector<expert_id> some_experts() {
    return all_experts([this](expert_id) { return links.one_in(2); });
  }

  void do_something() {
    switch (links.below(14)) {
    case 0:
    case 1:
    case 2:
      send_order(term, ++last_order, some_experts());
      break;
    case 3: // sent by an older scheduler, or overtaken after a rejoin
      if (links.one_in(2))
        send_order(term - 1, last_order + links.below(9), some_experts());
      else if (last_order > 2)
        send_order(term, last_order - 1 - links.below(2), some_experts());
      break;
    case 4:
      if (links.one_in(4))
        ++term;
      break;
    case 5:
      one.loader->hang();
      links.later(links.up_to(100ms), [this] { one.loader->resume(); });
      break;
    case 6:
      one.device->hang();
      links.later(links.up_to(30ms), [this] { one.device->resume(); });
      break;
    case 7:
      one.engine->fail_loads("tensor is missing");
      links.later(links.up_to(100ms), [this] { one.engine->fail_loads({}); });
      break;
    case 8: {
      const auto hosted = terms_of(one).hosted;
      for (auto expert : hosted)
        send_batch(expert, true);
      break;
    }
    default:
      send_batch(some_expert());
    }
  }

  void play() {
    for (int step = 0; step < 120; ++step) {
      links.pass(links.up_to(links.one_in(5) ? 40ms : 500us));
      do_something();
    }
    links.pass(5s);
    EXPECT_EQ(num_answered, num_batches) << "a batch was not answered, or twice";
    EXPECT_EQ(num_reports, num_orders) << "an order was not answered, or twice";
  }

  /// At the end it serves the last order.
  void expect_the_last_order() {
    const auto last = some_experts();
    send_order(term, ++last_order, last);
    links.pass(5s);
    EXPECT_EQ(num_reports, num_orders);
    EXPECT_EQ(terms_of(one).hosted, last);
    const auto computed = num_computed;
    for (auto expert : all_experts())
      send_batch(expert);
    links.pass(1s);
    EXPECT_EQ(num_computed - computed, last.size());
    EXPECT_EQ(num_answered, num_batches);
    EXPECT_EQ(ask<expert_host_status>(one.actor, status_atom_v)->queued_rows, 0U);
    EXPECT_EQ(one.metrics->refusals.count(ec::engine_failed), 0U);
  }

  seeded_links links;
  host one;
  std::uint64_t term = 2;
  std::uint64_t last_order = 0;
  std::pair<std::uint64_t, std::uint64_t> newest{};
  std::size_t num_batches = 0;
  std::size_t num_answered = 0;
  std::size_t num_computed = 0;
  std::size_t num_orders = 0;
  std::size_t num_reports = 0;

 private:
  void TestBody() override {}
};

TEST(expert_host_overlap, property_not_hosted_is_the_only_error) {
  for_each_seed(300, [](std::uint32_t seed) {
    host_world world{seed};
    world.play();
    world.expect_the_last_order();
  });
}

} // namespace
} // namespace troupe
