// Transfers of an expert's weights between workers: the fetcher with sources that fail in every way, and the
// sender's answers.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/typed_event_based_actor.hpp>

#include "actors/expert/expert_host_metrics.hpp"
#include "actors/expert/weights_fetcher.hpp"
#include "actors/expert/weights_sender.hpp"
#include "tests/unit/actors/serving_system.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr expert_id wanted{2, 3};

/// The image's bytes may outlive its engine: they are those that the fakes send.
std::vector<std::byte> bytes_of(const expert_image& image) {
  std::vector<std::byte> result(image.num_bytes());
  image.read(0, result);
  return result;
}

struct recording_sink : expert_sink {
  std::string begin(const std::string& layout, std::uint64_t num_bytes) override {
    ++begun;
    bytes.assign(num_bytes, std::byte{0});
    return layout == "simulated" ? "" : "cannot use '" + layout + "'";
  }

  void write(std::uint64_t offset, std::span<const std::byte> piece) override {
    std::copy(piece.begin(), piece.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  std::uint64_t checksum() const override { return sum(bytes); }

  static std::uint64_t sum(const std::vector<std::byte>& bytes) {
    std::uint64_t result = 0;
    for (const auto byte : bytes)
      result = result * 0x100000001b3 + std::to_integer<std::uint64_t>(byte);
    return result;
  }

  std::uint32_t begun = 0;
  std::vector<std::byte> bytes;
};

struct counted_weights : expert_host_metrics {
  void on_fetch(fetch_outcome outcome) override { ++outcomes[outcome]; }

  void on_weights_sent(std::uint64_t num_bytes) override { sent += num_bytes; }

  void on_weights_received(std::uint64_t num_bytes) override { received += num_bytes; }

  std::map<fetch_outcome, std::uint64_t> outcomes;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// The outcome of a job.
struct ended_job {
  std::shared_ptr<recording_sink> sink = std::make_shared<recording_sink>();
  std::uint32_t times = 0;
  std::string error;
};

class weights_transfer : public serving_system {
 public:
  static constexpr std::uint32_t chunk_bytes = 300; // four pieces of an expert's 1000 bytes

  std::shared_ptr<counted_weights> metrics = std::make_shared<counted_weights>();
  std::vector<std::byte> right = {};

  weights_fetcher_actor add_fetcher(bool has_files = false) {
    return root(spawn_weights_fetcher(system, {.reader = {9},
                                               .fingerprint = "modelled",
                                               .numerics_class = "modelled",
                                               .directory = directory,
                                               .has_files = has_files,
                                               .chunk_bytes = chunk_bytes,
                                               .own_thread = false,
                                               .metrics = metrics}));
  }

  /// An expert host's engine and its sender, published.
  struct source {
    host at;
    weights_sender_actor sender;
  };

  source add_source(const std::string& name, std::uint32_t max_fetches = 4) {
    source result;
    result.at = add_host(name);
    load(result.at, {wanted});
    result.sender = root(spawn_weights_sender(system, {.engine = result.at.engine,
                                                       .max_fetches = max_fetches,
                                                       .max_chunk_bytes = chunk_bytes,
                                                       .own_thread = false,
                                                       .metrics = metrics}));
    publish_sender(name, result.sender);
    right = bytes_of(*result.at.engine->image(wanted));
    return result;
  }

  /// A fake that answers with `answer`, or not at all if that is empty.
  worker_address add_fake(const std::string& name,
                          std::function<caf::result<weights_chunk>(const weights_read&)> answer) {
    const auto fake =
        root(system.spawn([answer = std::move(answer)](
                              weights_sender_actor::pointer self) -> weights_sender_actor::behavior_type {
          return {[self, answer](const weights_read& what) -> caf::result<weights_chunk> {
                    if (answer)
                      return answer(what);
                    open_promises().push_back(self->make_response_promise<weights_chunk>());
                    return open_promises().back();
                  },
                  [](caf::tick_atom) {}};
        }));
    publish_sender(name, fake);
    return {{++last_fake_}, worker_role::expert, name, ""};
  }

  /// The piece that a correct source would send.
  weights_chunk piece(const weights_read& what) const {
    const auto length = std::min<std::uint64_t>(what.max_bytes, right.size() - what.offset);
    return {"simulated", right.size(), recording_sink::sum(right), what.offset,
            payload::copy_of(std::span{right}.subspan(what.offset, length))};
  }

  std::shared_ptr<ended_job> fetch(const weights_fetcher_actor& from, std::vector<worker_address> sources) {
    auto result = std::make_shared<ended_job>();
    caf::anon_send(from, std::make_shared<weights_job>(wanted, std::move(sources), result->sink,
                                                       [result](std::string error) {
                                                         ++result->times;
                                                         result->error = std::move(error);
                                                       }));
    return result;
  }

  std::shared_ptr<ended_job> fetch_all(std::vector<worker_address> sources, bool has_files = false) {
    auto result = fetch(add_fetcher(has_files), std::move(sources));
    EXPECT_TRUE(run_until([&] { return result->times > 0; }));
    return result;
  }

  void publish_sender(const std::string& name, const weights_sender_actor& sender) {
    caf::anon_send(directory, caf::publish_atom_v, weights_service(name),
                   caf::actor_cast<caf::strong_actor_ptr>(sender));
    run();
  }

  weights_read read_of(std::uint64_t fetch, std::uint64_t offset = 0, std::uint64_t reader = 9) const {
    return {{reader}, fetch, "modelled", "modelled", wanted, offset, chunk_bytes};
  }

 protected:
  void TearDown() override {
    open_promises().clear();
    serving_system::TearDown();
  }

 private:
  /// Of silent fakes.
  static std::vector<caf::typed_response_promise<weights_chunk>>& open_promises() {
    static std::vector<caf::typed_response_promise<weights_chunk>> promises;
    return promises;
  }

  std::uint64_t last_fake_ = 500;
};

TEST_F(weights_transfer, gives_the_bytes_in_pieces_and_counts_them) {
  const auto from = add_source("expert-0");
  const auto job = fetch_all({from.at.address});
  EXPECT_EQ(job->error, "");
  EXPECT_EQ(job->sink->bytes, right);
  EXPECT_EQ(job->sink->begun, 1U);
  EXPECT_EQ(metrics->sent, 1000U);
  EXPECT_EQ(metrics->received, 1000U);
  EXPECT_EQ(metrics->outcomes, (std::map<fetch_outcome, std::uint64_t>{{fetch_outcome::fetched, 1}}));
}

TEST_F(weights_transfer, one_piece_is_on_its_way_at_a_time_and_none_is_larger_than_asked) {
  add_source("expert-0");
  std::uint64_t offset = 0;
  const auto fake = add_fake("fake", [&](const weights_read& what) -> caf::result<weights_chunk> {
    EXPECT_EQ(what.offset, offset);
    EXPECT_EQ(what.max_bytes, chunk_bytes);
    auto result = piece(what);
    offset += result.bytes.size();
    return result;
  });
  EXPECT_EQ(fetch_all({fake})->sink->bytes, right);
  EXPECT_EQ(offset, 1000U);
}

/// A source that begins well and then does `then`; the next one sends everything.
struct flawed_source {
  const char* name;
  fetch_outcome outcome;
  std::function<caf::result<weights_chunk>(weights_chunk)> then;
};

TEST_F(weights_transfer, whatever_a_source_does_wrong_in_the_middle_the_next_one_gives_all_of_it) {
  const std::vector<flawed_source> flawed{
      {"dies", fetch_outcome::lost, [](weights_chunk) { return make_error(ec::peer_down, "gone"); }},
      {"has_dropped_it", fetch_outcome::refused,
       [](weights_chunk) { return make_error(ec::not_hosted, "dropped"); }},
      {"damages_it", fetch_outcome::damaged,
       [](weights_chunk x) {
         x.bytes.mutable_data()[5] ^= std::byte{1};
         return x;
       }},
      {"has_another_one_now", fetch_outcome::damaged,
       [](weights_chunk x) {
         ++x.checksum;
         return x;
       }},
      {"grows", fetch_outcome::damaged,
       [](weights_chunk x) {
         x.num_bytes += 8;
         return x;
       }},
      {"sends_another_piece", fetch_outcome::damaged,
       [](weights_chunk x) {
         x.offset += 1;
         return x;
       }},
      {"sends_nothing", fetch_outcome::damaged,
       [](weights_chunk x) {
         x.bytes = {};
         return x;
       }},
      {"sends_too_much", fetch_outcome::damaged,
       [](weights_chunk x) {
         x.bytes = payload::copy_of(std::vector<std::byte>(chunk_bytes + 1));
         return x;
       }},
  };
  const auto good = add_source("expert-0");
  for (const auto& one : flawed) {
    SCOPED_TRACE(one.name);
    metrics->outcomes.clear();
    const auto bad = add_fake(one.name, [&](const weights_read& what) -> caf::result<weights_chunk> {
      return what.offset == 0 ? piece(what) : one.then(piece(what));
    });
    const auto job = fetch_all({bad, good.at.address});
    EXPECT_EQ(job->error, "");
    EXPECT_EQ(job->times, 1U);
    EXPECT_EQ(job->sink->bytes, right);
    EXPECT_EQ(job->sink->begun, 2U);
    EXPECT_EQ(metrics->outcomes,
              (std::map<fetch_outcome, std::uint64_t>{{one.outcome, 1}, {fetch_outcome::fetched, 1}}));
  }
}

TEST_F(weights_transfer, bytes_that_differ_from_their_checksum_are_never_taken) {
  add_source("expert-0");
  const auto bad = add_fake("fake", [&](const weights_read& what) -> caf::result<weights_chunk> {
    auto result = piece(what);
    if (what.offset == 600)
      result.bytes.mutable_data()[0] ^= std::byte{0x80};
    return result;
  });
  const auto job = fetch_all({bad});
  EXPECT_EQ(job->times, 1U);
  EXPECT_EQ(job->error, "fake: its bytes came damaged: the checksum differs");
}

TEST_F(weights_transfer, a_layout_that_the_engine_cannot_use_is_refused_before_anything_is_written) {
  add_source("expert-0");
  const auto other = add_fake("fake", [&](const weights_read& what) -> caf::result<weights_chunk> {
    auto result = piece(what);
    result.layout = "other";
    return result;
  });
  EXPECT_EQ(fetch_all({other})->error, "fake: cannot use 'other'");
  EXPECT_EQ(metrics->outcomes, (std::map<fetch_outcome, std::uint64_t>{{fetch_outcome::refused, 1}}));
}

TEST_F(weights_transfer, a_silent_source_is_given_up_at_its_deadline_and_asked_last_from_then_on) {
  const auto good = add_source("expert-0");
  const auto silent = add_fake("silent", {});
  const auto fetcher = add_fetcher();
  const auto start = now();
  const auto first = fetch(fetcher, {silent, good.at.address});
  ASSERT_TRUE(run_until([&] { return first->times > 0; }));
  EXPECT_EQ(first->error, "");
  EXPECT_EQ(now() - start, defaults::weights_chunk_timeout);
  const auto again = now();
  const auto second = fetch(fetcher, {silent, good.at.address});
  ASSERT_TRUE(run_until([&] { return second->times > 0; }));
  EXPECT_EQ(second->sink->bytes, right);
  EXPECT_EQ(now(), again) << "the silent one was asked first again";
  advance(defaults::weights_avoid);
  const auto later = now();
  const auto third = fetch(fetcher, {silent, good.at.address});
  ASSERT_TRUE(run_until([&] { return third->times > 0; }));
  EXPECT_EQ(now() - later, defaults::weights_chunk_timeout) << "it may be well again";
}

TEST_F(weights_transfer, a_source_that_nobody_finds_is_left_for_the_next_one) {
  const auto good = add_source("expert-0");
  const worker_address nobody{{77}, worker_role::expert, "nobody", ""};
  const auto job = fetch_all({nobody, good.at.address});
  EXPECT_EQ(job->error, "");
  EXPECT_EQ(metrics->outcomes[fetch_outcome::lost], 1U);
}

TEST_F(weights_transfer, the_error_names_every_source_and_what_was_wrong_with_it) {
  const auto one = add_fake("one", [](const weights_read&) { return make_error(ec::not_hosted, "dropped"); });
  const auto two = add_fake("two", [](const weights_read&) { return make_error(ec::incompatible, "other"); });
  EXPECT_EQ(fetch_all({two, one})->error, "one: dropped; two: other");
  EXPECT_EQ(fetch_all({})->error, "no worker that is here has it");
}

TEST_F(weights_transfer, busy_sources_are_asked_again_where_there_are_no_files) {
  add_source("expert-0");
  std::uint32_t asked = 0;
  const auto busy = add_fake("busy", [&](const weights_read& what) -> caf::result<weights_chunk> {
    if (++asked <= 3)
      return make_error(ec::overloaded, "4 experts are being sent");
    return piece(what);
  });
  const auto start = now();
  EXPECT_EQ(fetch_all({busy})->sink->bytes, right);
  EXPECT_EQ(now() - start, 3 * defaults::weights_busy_pause);
  asked = 0;
  EXPECT_EQ(fetch_all({busy}, /*has_files=*/true)->error, "busy: 4 experts are being sent");
  EXPECT_EQ(asked, 1U);
}

TEST_F(weights_transfer, sources_that_stay_busy_are_not_waited_for_for_ever) {
  const auto busy =
      add_fake("busy", [](const weights_read&) { return make_error(ec::overloaded, "no room"); });
  const auto start = now();
  EXPECT_EQ(fetch_all({busy})->error, "busy: no room");
  EXPECT_EQ(now() - start, defaults::weights_busy_wait);
}

TEST_F(weights_transfer, a_job_ends_when_its_fetcher_does_and_when_there_is_none) {
  const auto silent = add_fake("silent", {});
  const auto fetcher = add_fetcher();
  const auto job = fetch(fetcher, {silent});
  run();
  EXPECT_EQ(job->times, 0U);
  kill(fetcher);
  advance(defaults::weights_chunk_timeout);
  EXPECT_EQ(job->times, 1U);
  EXPECT_EQ(job->error, "whoever fetches experts has ended");
  const auto late = fetch(fetcher, {silent});
  run();
  EXPECT_EQ(late->times, 1U);
}

// ---------------------------------------------------------------------------------------------------------------
// The sender

TEST_F(weights_transfer, other_models_and_numerics_classes_are_refused_by_name) {
  const auto from = add_source("expert-0");
  auto what = read_of(1);
  what.fingerprint = "another";
  auto refused = ask<weights_chunk>(from.sender, what);
  EXPECT_EQ(code_of(refused.error()), ec::incompatible);
  EXPECT_EQ(text_of(refused.error()),
            "weights of the model 'modelled' are here, and asked for are those of 'another'");
  what = read_of(1);
  what.numerics_class = "other/r8";
  refused = ask<weights_chunk>(from.sender, what);
  EXPECT_EQ(code_of(refused.error()), ec::incompatible);
}

TEST_F(weights_transfer, an_expert_that_is_not_loaded_is_not_sent) {
  const auto from = add_source("expert-0");
  auto what = read_of(1);
  what.expert = {0, 1};
  EXPECT_EQ(code_of(ask<weights_chunk>(from.sender, what).error()), ec::not_hosted);
}

TEST_F(weights_transfer, bytes_that_the_expert_does_not_have_are_an_error) {
  const auto from = add_source("expert-0");
  EXPECT_EQ(code_of(ask<weights_chunk>(from.sender, read_of(1, 1000)).error()), ec::bad_request);
  EXPECT_EQ(code_of(ask<weights_chunk>(from.sender, read_of(1, ~std::uint64_t{0})).error()), ec::bad_request);
  auto none = read_of(2);
  none.max_bytes = 0;
  EXPECT_EQ(code_of(ask<weights_chunk>(from.sender, none).error()), ec::bad_request);
}

TEST_F(weights_transfer, an_expert_that_is_dropped_while_it_is_sent_is_sent_to_its_end_and_then_no_more) {
  auto from = add_source("expert-0");
  const auto first = ask<weights_chunk>(from.sender, read_of(1));
  ASSERT_TRUE(first);
  ASSERT_TRUE(ask<host_report>(from.at.actor, host_order{1, 90, {}}));
  auto got = std::vector<std::byte>(first->bytes.bytes().begin(), first->bytes.bytes().end());
  while (got.size() < 1000) {
    const auto next = ask<weights_chunk>(from.sender, read_of(1, got.size()));
    ASSERT_TRUE(next);
    got.insert(got.end(), next->bytes.bytes().begin(), next->bytes.bytes().end());
  }
  EXPECT_EQ(got, right);
  EXPECT_EQ(code_of(ask<weights_chunk>(from.sender, read_of(2)).error()), ec::not_hosted);
}

TEST_F(weights_transfer, a_dropped_expert_is_forgotten_when_its_reader_asks_no_more) {
  auto from = add_source("expert-0");
  ASSERT_TRUE(ask<weights_chunk>(from.sender, read_of(1)));
  ASSERT_TRUE(ask<host_report>(from.at.actor, host_order{1, 90, {}}));
  advance(2 * defaults::weights_idle);
  EXPECT_EQ(code_of(ask<weights_chunk>(from.sender, read_of(1, 300)).error()), ec::not_hosted);
}

TEST_F(weights_transfer, no_more_experts_are_sent_at_a_time_than_may_be) {
  const auto from = add_source("expert-0", 2);
  ASSERT_TRUE(ask<weights_chunk>(from.sender, read_of(1, 0, 1)));
  ASSERT_TRUE(ask<weights_chunk>(from.sender, read_of(1, 0, 2)));
  EXPECT_EQ(code_of(ask<weights_chunk>(from.sender, read_of(1, 0, 3)).error()), ec::overloaded);
  EXPECT_TRUE(ask<weights_chunk>(from.sender, read_of(1, 300, 1))) << "those under way go on";
  EXPECT_TRUE(ask<weights_chunk>(from.sender, read_of(2, 0, 2))) << "a reader's next one replaces its last";
  ASSERT_TRUE(ask<weights_chunk>(from.sender, read_of(1, 900, 1)));
  EXPECT_TRUE(ask<weights_chunk>(from.sender, read_of(1, 0, 3))) << "the first has had its last byte";
}

// ---------------------------------------------------------------------------------------------------------------
// The host

TEST_F(weights_transfer, a_host_without_files_serves_what_others_have_and_reports_what_nobody_has) {
  const auto from = add_source("expert-0");
  expert_host_config config;
  config.weights = weight_origin::peers;
  config.fetcher = add_fetcher();
  const auto without = add_host("expert-1", config, /*has_files=*/false);
  EXPECT_EQ(terms_of(without).weights, weight_origin::peers);
  const expert_id nowhere{0, 1};
  const auto report = ask_within<host_report>(
      60s, without.actor, host_order{1, 1, {nowhere, wanted}, {{from.at.address, {wanted}}}});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->hosted, std::vector<expert_id>{wanted});
  EXPECT_EQ(report->error, "it cannot be fetched, and there are no files: no worker that is here has it");
  EXPECT_EQ(without.engine->fetched(), 1U);
}

TEST_F(weights_transfer, a_host_with_files_reads_them_where_nobody_can_send) {
  const auto fake =
      add_fake("fake", [](const weights_read&) { return make_error(ec::not_hosted, "dropped"); });
  expert_host_config config;
  config.weights = weight_origin::peers_then_files;
  config.fetcher = add_fetcher(/*has_files=*/true);
  const auto both = add_host("expert-1", config);
  const auto report =
      ask_within<host_report>(60s, both.actor, host_order{1, 1, {wanted}, {{fake, {wanted}}}});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->error, "");
  EXPECT_EQ(report->hosted, std::vector<expert_id>{wanted});
  EXPECT_EQ(both.engine->fetched(), 0U);
}

} // namespace
} // namespace troupe
