#include "actors/expert/weights_fetcher.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/expert/expert_host_metrics.hpp"
#include "actors/expert/weights_sender.hpp"
#include "actors/protocol/error.hpp"
#include "actors/protocol/weights_messages.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

weights_job::weights_job(expert_id which, std::vector<worker_address> from, std::shared_ptr<expert_sink> to,
                         expert_fetch_done when_done)
    : expert(which), sources(std::move(from)), sink(std::move(to)), done_(std::move(when_done)) {}

weights_job::~weights_job() {
  finish("whoever fetches experts has ended");
}

void weights_job::finish(std::string error) {
  if (auto done = std::exchange(done_, {}))
    done(std::move(error));
}

const char* name_of(fetch_outcome outcome) {
  switch (outcome) {
  case fetch_outcome::fetched:
    return "fetched";
  case fetch_outcome::refused:
    return "refused";
  case fetch_outcome::busy:
    return "busy";
  case fetch_outcome::lost:
    return "lost";
  case fetch_outcome::damaged:
    break;
  }
  return "damaged";
}

using clock_time = caf::actor_clock::time_point;

/// A running job.
struct weights_fetch {
  weights_job_ptr job;
  std::uint64_t number = 0;                  ///< of the attempt: each source gets another number
  std::vector<worker_address> left;          ///< not asked yet, the next one last
  std::vector<worker_address> busy;          ///< asked again later
  clock_time busy_until;                     ///< end of asking busy sources again
  worker_address source;                     ///< the source that is asked now
  weights_sender_actor sender;               ///< its actor
  std::string layout;                        ///< as the source reports it
  std::uint64_t num_bytes = 0;               ///< as the source reports it
  std::uint64_t checksum = 0;                ///< as the source reports it
  std::uint64_t received = 0;                ///< bytes received from the source
  std::uint64_t begin_ns = 0;                ///< begin of the attempt; 0: it is not traced
  std::map<std::string, std::string> errors; ///< by source, the last error of each
};

namespace {

struct weights_fetcher_state {
  static inline const char* name = "weights_fetcher";

  weights_fetcher_config config;
  std::uint64_t last_number = 0;
  std::map<worker_id, clock_time> avoided; ///< sources that did not answer, until when
};

using fetcher_pointer = weights_fetcher_actor::stateful_pointer<weights_fetcher_state>;

void next_source(fetcher_pointer self, const weights_fetch_ptr& fetch);

/// Counts and records an attempt that has ended.
void count(fetcher_pointer self, const weights_fetch& fetch, fetch_outcome outcome) {
  if (self->state.config.metrics)
    self->state.config.metrics->on_fetch(outcome);
  if (fetch.begin_ns == 0)
    return;
  timeline::event fetched{.kind = timeline::event_kind::weights_fetch, .begin_ns = fetch.begin_ns};
  fetched.id = timeline::packed(fetch.job->expert.layer, fetch.job->expert.index);
  fetched.duration_ns = timeline::now_ns() - fetch.begin_ns;
  fetched.args = {fetch.received, fetch.source.id.value, static_cast<std::uint64_t>(outcome)};
  timeline::record(fetched, fetch.source.name);
}

void give_up_source(fetcher_pointer self, const weights_fetch_ptr& fetch, fetch_outcome outcome,
                    const std::string& error) {
  count(self, *fetch, outcome);
  fetch->errors[fetch->source.name] = error;
  if (outcome == fetch_outcome::busy)
    fetch->busy.push_back(fetch->source);
  else if (outcome == fetch_outcome::lost)
    self->state.avoided[fetch->source.id] = self->clock().now() + defaults::weights_avoid;
  next_source(self, fetch);
}

void failed(fetcher_pointer self, const weights_fetch_ptr& fetch, const caf::error& error) {
  const auto code = code_of(error);
  const auto outcome = code == ec::overloaded ? fetch_outcome::busy
                       : code == ec::incompatible || code == ec::not_hosted || code == ec::bad_request
                           ? fetch_outcome::refused
                           : fetch_outcome::lost;
  give_up_source(self, fetch, outcome, text_of(error));
}

void ask(fetcher_pointer self, const weights_fetch_ptr& fetch);

/// @returns why a chunk is not the one that was asked for; empty if it is
std::string flaw_of(const weights_fetch& fetch, const weights_chunk& chunk, std::uint32_t max_bytes) {
  if (fetch.received > 0
      && (chunk.layout != fetch.layout || chunk.num_bytes != fetch.num_bytes
          || chunk.checksum != fetch.checksum))
    return "the expert is another one than when the fetch began";
  if (chunk.offset != fetch.received || chunk.bytes.empty() || chunk.bytes.size() > max_bytes
      || chunk.offset > chunk.num_bytes || chunk.bytes.size() > chunk.num_bytes - chunk.offset)
    return "it has sent other bytes than it was asked for";
  return {};
}

void arrived(fetcher_pointer self, const weights_fetch_ptr& fetch, const weights_chunk& chunk) {
  const auto& config = self->state.config;
  if (config.metrics)
    config.metrics->on_weights_received(chunk.bytes.size());
  if (auto flaw = flaw_of(*fetch, chunk, config.chunk_bytes); !flaw.empty()) {
    give_up_source(self, fetch, fetch_outcome::damaged, flaw);
    return;
  }
  auto& sink = *fetch->job->sink;
  if (fetch->received == 0) {
    if (auto refusal = sink.begin(chunk.layout, chunk.num_bytes); !refusal.empty()) {
      give_up_source(self, fetch, fetch_outcome::refused, refusal);
      return;
    }
    fetch->layout = chunk.layout;
    fetch->num_bytes = chunk.num_bytes;
    fetch->checksum = chunk.checksum;
  }
  sink.write(chunk.offset, chunk.bytes.bytes());
  fetch->received += chunk.bytes.size();
  if (fetch->received < fetch->num_bytes) {
    ask(self, fetch);
  } else if (sink.checksum() != fetch->checksum) {
    give_up_source(self, fetch, fetch_outcome::damaged, "its bytes came damaged: the checksum differs");
  } else {
    count(self, *fetch, fetch_outcome::fetched);
    fetch->job->finish({});
  }
}

void ask(fetcher_pointer self, const weights_fetch_ptr& fetch) {
  const auto& config = self->state.config;
  weights_read what{config.reader,      fetch->number,   config.fingerprint, config.numerics_class,
                    fetch->job->expert, fetch->received, config.chunk_bytes};
  self->request(fetch->sender, defaults::weights_chunk_timeout, std::move(what))
      .then([self, fetch](const weights_chunk& chunk) { arrived(self, fetch, chunk); },
            [self, fetch](const caf::error& error) { failed(self, fetch, error); });
}

void finish_without(fetcher_pointer self, const weights_fetch_ptr& fetch) {
  if (!fetch->busy.empty() && !self->state.config.has_files && self->clock().now() < fetch->busy_until) {
    fetch->left = std::exchange(fetch->busy, {});
    std::reverse(fetch->left.begin(), fetch->left.end());
    self->delayed_send(self, defaults::weights_busy_pause, fetch);
    return;
  }
  std::string text;
  for (const auto& [source, error] : fetch->errors)
    text += (text.empty() ? "" : "; ") + source + ": " + error;
  fetch->job->finish(text.empty() ? "no worker that is here has it" : text);
}

void next_source(fetcher_pointer self, const weights_fetch_ptr& fetch) {
  if (fetch->left.empty()) {
    finish_without(self, fetch);
    return;
  }
  fetch->source = std::move(fetch->left.back());
  fetch->left.pop_back();
  fetch->received = 0;
  fetch->begin_ns = timeline::is_on() ? timeline::now_ns() : 0;
  fetch->number = ++self->state.last_number;
  self->request(self->state.config.directory, defaults::connect_timeout, caf::resolve_atom_v,
                fetch->source.endpoint, weights_service(fetch->source.name))
      .then(
          [self, fetch](const caf::strong_actor_ptr& handle) {
            if (!handle) {
              give_up_source(self, fetch, fetch_outcome::lost, "it gives no weights");
              return;
            }
            fetch->sender = caf::actor_cast<weights_sender_actor>(handle);
            ask(self, fetch);
          },
          [self, fetch](const caf::error& error) {
            give_up_source(self, fetch, fetch_outcome::lost, text_of(error));
          });
}

void begin(fetcher_pointer self, const weights_job_ptr& job) {
  auto& avoided = self->state.avoided;
  const auto now = self->clock().now();
  std::erase_if(avoided, [now](const auto& entry) { return entry.second <= now; });
  auto fetch = std::make_shared<weights_fetch>();
  fetch->job = job;
  fetch->busy_until = now + defaults::weights_busy_wait;
  fetch->left.assign(job->sources.rbegin(), job->sources.rend());
  // The next source is the last element, so those to avoid come first.
  std::stable_partition(fetch->left.begin(), fetch->left.end(),
                        [&](const worker_address& source) { return avoided.count(source.id) > 0; });
  next_source(self, fetch);
}

weights_fetcher_actor::behavior_type weights_fetcher(fetcher_pointer self, weights_fetcher_config config) {
  self->state.config = std::move(config);
  return {
      [self](const weights_job_ptr& job) { begin(self, job); },
      [self](const weights_fetch_ptr& fetch) { next_source(self, fetch); },
  };
}

} // namespace

weights_fetcher_actor spawn_weights_fetcher(caf::actor_system& system, weights_fetcher_config config) {
  return config.own_thread ? system.spawn<caf::detached>(weights_fetcher, std::move(config))
                           : system.spawn(weights_fetcher, std::move(config));
}

} // namespace troupe
