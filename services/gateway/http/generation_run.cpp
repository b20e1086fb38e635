#include "services/gateway/http/generation_run.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/timeline/timeline.hpp"
#include "services/gateway/http/answer_progress.hpp"
#include "services/gateway/http/error_status.hpp"
#include "services/gateway/http/event_queue.hpp"
#include "services/gateway/http/gathered_answer.hpp"
#include "services/gateway/http/key_usage.hpp"
#include "services/gateway/http/pieces.hpp"
#include "services/gateway/http/text_work.hpp"
#include "services/gateway/openai/answer_size.hpp"
#include "services/gateway/openai/response.hpp"

namespace troupe::http {

using openai::api_error;
using openai::choice_delta;
using openai::generation_plan;

namespace {

using clock = std::chrono::steady_clock;

/// A comment, which clients skip. It shows proxies that the stream is alive.
constexpr const char* ping = ": ping\n\n";

/// A smaller answer is put together without a thread of the pool.
constexpr std::size_t small_answer_bytes = 32 << 10;

/// Not inlined: in a coroutine GCC 12 takes the move for a copy between parts of one string (-Wrestrict).
[[gnu::noinline]] std::string take_all(std::string& text) {
  return std::exchange(text, {});
}

/// One request for generated text from its plan to its answer.
class run {
 public:
  run(exchange& client, api& shared, planned_generation what)
      : client_(client),
        shared_(shared),
        plan_(std::move(what.plan)),
        permit_(what.permit),
        wanted_(what.wanted),
        arrival_(what.arrival),
        trace_(what.trace),
        writer_(client.incoming().id, std::move(what.model), shared.config.fingerprint, std::time(nullptr),
                plan_, *shared.codec),
        queue_(client.executor(), most_waiting_bytes()),
        progress_(plan_, *shared.codec, *shared.metrics, what.arrival),
        gathered_(shared, progress_.num_choices()) {
    prompt_logprobs_.resize(plan_.prompts.size());
  }

  ~run() {
    for (std::size_t job = 0; job < handles_.size(); ++job)
      if (!progress_.job_ended(job))
        handles_[job]->cancel();
  }

  run(const run&) = delete;
  run& operator=(const run&) = delete;

  task<void> execute() {
    start_prompts();
    client_.watch([this] { queue_.wake(); });
    if (streams())
      sign_due_ = clock::now() + shared_.config.limits.stream_head;
    bool going = true;
    while (going) {
      const std::vector<generation_event> events = co_await queue_.take(std::min(deadline(), sign_due_));
      going = co_await advance(events);
    }
    co_await client_.unwatch();
    describe(client_.record());
    if (trace_ != 0)
      trace_end();
    if (client_.gone() || too_slow_)
      shared_.metrics->client_gone(too_slow_ || client_.too_slow());
    else
      co_await conclude();
  }

 private:
  void trace_end() const {
    const openai::token_usage used = progress_.usage();
    timeline::event served{.kind = timeline::event_kind::http_request, .begin_ns = timeline::ns_of(arrival_)};
    served.id = trace_;
    served.duration_ns = timeline::now_ns() - served.begin_ns;
    served.args = {used.prompt_tokens, used.completion_tokens};
    timeline::record(served);
  }

  /// Fills in the line of the access log.
  void describe(access_record& record) const {
    progress_.describe(record);
    if (error_)
      record.error = error_->what();
    else if (too_slow_)
      record.error = "the client did not read in time";
  }

  /// Only a stream can wait for its client. For other answers the limit is the size that they may have.
  std::size_t most_waiting_bytes() const {
    const std::size_t unsent = shared_.config.limits.max_unsent_bytes;
    return streams() ? unsent : std::max(unsent, shared_.config.requests.max_response_bytes);
  }

  clock::time_point deadline() const { return arrival_ + shared_.config.limits.request; }

  std::uint32_t num_choices() const { return plan_.options.num_choices; }

  bool streams() const { return plan_.options.stream; }

  /// Starts as many prompts as may be open, because a long list would fill the scheduler's queue by itself.
  /// Prompts that start after the first token are not refused any more, because that would end the answer.
  void start_prompts() {
    const auto& limits = shared_.config.limits;
    const std::size_t most = has_begun_ ? limits.max_open_prompts : limits.max_first_prompts;
    while (handles_.size() < plan_.prompts.size() && handles_.size() - progress_.num_ended_jobs() < most) {
      const auto job = static_cast<std::uint32_t>(handles_.size());
      const openai::planned_prompt& prompt = plan_.prompts[job];
      shared_.metrics->prompt_started(prompt.tokens.size());
      generation_job ordered{prompt.tokens,
                             openai::sampling_of(plan_, prompt),
                             num_choices(),
                             plan_.options.priority,
                             /*open_ended=*/!plan_.options.max_tokens.has_value(),
                             /*follows=*/has_begun_,
                             permit_.name(),
                             permit_.weight(),
                             {client_.incoming().id, client_.incoming().traceparent},
                             plan_.options.cache_salt};
      handles_.push_back(shared_.backend->start(std::move(ordered), queue_.listener(job)));
    }
  }

  /// Handles events, and sends what a stream has to send. False: the answer is complete.
  task<bool> advance(const std::vector<generation_event>& events) {
    if (client_.gone())
      co_return false;
    if (client_.time_is_up()) {
      error_ = api_error_of(ec::shutting_down, "the gateway is shutting down");
      shared_.metrics->rejected(reason_of(ec::shutting_down));
      co_return false;
    }
    if (queue_.overflowed())
      co_return fall_behind();
    if (events.empty() && clock::now() < deadline()) {
      if (clock::now() < sign_due_)
        co_return true;
      const bool taken = co_await send(sign_of_life());
      co_return taken;
    }
    if (events.empty()) {
      error_ = api_error(504, "timeout_error", "the request was not completed in time", {}, "timeout");
      co_return false;
    }
    std::string out;
    for (const generation_event& event : events) {
      take(event, out);
      if (!streams() || out.size() < part_bytes)
        continue;
      // Send before rendering more: while the client reads, further tokens arrive.
      std::string part = take_all(out);
      const bool taken = co_await send(std::move(part));
      if (!taken)
        co_return false;
      if (queue_.overflowed())
        co_return fall_behind();
    }
    if (!error_)
      start_prompts();
    if (streams() && (!out.empty() || (!error_ && may_begin()))) {
      const bool taken = co_await send(std::move(out));
      if (!taken)
        co_return false;
    }
    co_return !error_ && !progress_.all_ended();
  }

  /// The head of a stream is due before its first token: all prompts were started, so that an error that
  /// should decide the status is unlikely.
  bool may_begin() const { return !streaming_ && progress_.num_placed() >= handles_.size(); }

  /// Sends a sign of life on a silent stream: first its head, then its opening event, then comments. A stream
  /// never begins with a comment, because some parsers take its blank line for the end of an event.
  std::string sign_of_life() {
    if (!streaming_)
      return {};
    if (has_event_)
      return ping;
    if (plan_.options.echo) // the first event has the prompt, whose log probabilities may be missing yet
      return {};
    progress_.of(0).opened = true;
    const openai::answered_choice opened = described(0, {});
    if (plan_.chat)
      return openai::as_event(writer_.role_chunk(opened));
    return openai::as_event(writer_.token_chunk(opened, /*first=*/true));
  }

  /// The client reads too slowly. Returns false, because the answer ends.
  bool fall_behind() {
    if (!streams()) {
      error_ = openai::answer_too_large(shared_.config.requests.max_response_bytes);
      return false;
    }
    too_slow_ = true;
    client_.abandon();
    return false;
  }

  task<bool> send(std::string events) {
    if (!streaming_) {
      streaming_ = true;
      const bool begun = co_await client_.begin_stream("text/event-stream; charset=utf-8", stream_headers());
      if (!begun)
        co_return false;
    }
    const auto begin_ns = trace_ == 0 ? 0 : timeline::now_ns();
    const auto bytes = events.size();
    has_event_ = has_event_ || bytes > 0;
    const bool taken = co_await client_.write(std::move(events));
    if (trace_ != 0 && bytes > 0) {
      timeline::event written{.kind = timeline::event_kind::token_write, .begin_ns = begin_ns, .id = trace_};
      written.duration_ns = timeline::now_ns() - begin_ns;
      written.args = {num_writes_++, bytes};
      timeline::record(written);
    }
    const auto silence = shared_.config.limits.sse_ping;
    sign_due_ = silence.count() > 0 ? clock::now() + silence : clock::time_point::max();
    co_return taken;
  }

  header_list stream_headers() const {
    // Otherwise proxies such as nginx would buffer the events.
    return {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}, seed_header()};
  }

  header_list::value_type seed_header() const { return {"x-troupe-seed", std::to_string(plan_.seed)}; }

  void take(const generation_event& event, std::string& out) {
    try {
      take_in(event, out);
    } catch (const api_error& e) { // the answer is too large
      error_ = e;
    }
  }

  void take_in(const generation_event& event, std::string& out) {
    using kind = generation_event::kind;
    if (error_)
      return;
    if (event.what == kind::placed) {
      progress_.job_placed(event.at);
      return;
    }
    if (event.what == kind::cached_tokens) {
      progress_.cached_tokens(event.num_cached);
      return;
    }
    if (event.what == kind::prompt_logprobs) {
      gathered_.account(openai::bytes_of(event.tokens));
      prompt_logprobs_[event.job] = event.tokens;
      return;
    }
    if (event.what == kind::error || event.reason == finish_reason::cancelled) {
      const ec code = event.what == kind::error ? event.code : ec::cancelled;
      shared_.metrics->rejected(reason_of(code));
      error_ = api_error_of(code, event.text);
      if (code == ec::overloaded && !has_begun_ && wanted_)
        shared_.refusals.add(permit_.name(), *wanted_, *error_, shared_.config.key_clock());
      return;
    }
    const std::uint32_t index = event.job * num_choices() + event.choice;
    if (event.choice >= num_choices() || progress_.of(index).ended)
      return;
    has_begun_ = true;
    take_tokens(index, event, out);
  }

  void take_tokens(std::uint32_t index, const generation_event& event, std::string& out) {
    openai::choice& state = progress_.of(index).state;
    timeline::span rendering(timeline::event_kind::token_text, event.tokens.empty() ? 0 : trace_);
    rendering.args() = {event.job, event.choice, state.num_tokens(), timeline::ns_of(event.at), num_writes_};
    if (!drops_new_tokens(plan_) && !event.tokens.empty()) {
      permit_.generated(event.tokens.size());
      progress_.tokens_came(index, event.at, event.tokens.size());
      for (std::size_t i = 0; i < event.tokens.size() && !state.finished(); ++i) {
        const bool last = i + 1 == event.tokens.size();
        choice_delta delta = state.push(event.tokens[i], last ? event.reason : finish_reason::none);
        gain(index, std::move(delta), out);
      }
    } else if (event.reason != finish_reason::none) {
      choice_delta delta = state.finish(drops_new_tokens(plan_) ? finish_reason::length : event.reason);
      gain(index, std::move(delta), out);
    }
    if (!state.finished())
      return;
    if (event.reason == finish_reason::none) // a stop string, which the engine does not know
      handles_[event.job]->stop(event.choice);
    progress_.choice_ended(index, event.at);
  }

  openai::answered_choice described(std::uint32_t index, choice_delta gained) const {
    const std::size_t job = index / num_choices();
    return {index, std::move(gained), &progress_.of(index).state, &plan_.prompts[job],
            prompt_logprobs_[job] ? &*prompt_logprobs_[job] : nullptr};
  }

  void gain(std::uint32_t index, choice_delta delta, std::string& out) {
    answer_progress::track& one = progress_.of(index);
    if (!streams())
      return gathered_.gain(index, std::move(delta));
    const openai::answered_choice grown = described(index, std::move(delta));
    if (!one.opened && plan_.chat)
      out += openai::as_event(writer_.role_chunk(grown));
    out += openai::as_event(writer_.token_chunk(grown, !one.opened));
    one.opened = true;
  }

  /// Writes the next choices of a whole answer, and its end after the last one.
  /// @returns whether the answer is complete
  bool write_piece(std::string& body, std::uint32_t& next) {
    const std::size_t enough = body.size() + piece_bytes;
    for (; next < progress_.num_choices() && body.size() < enough; ++next)
      writer_.add_choice(body, described(next, gathered_.take(next)), next == 0);
    const bool all = next == progress_.num_choices();
    if (all)
      writer_.end_body(body, described(0, {}), progress_.usage());
    if (const std::size_t most = shared_.config.requests.max_response_bytes; body.size() > most)
      throw openai::answer_too_large(most);
    return all;
  }

  /// The whole answer. A large one is put together on threads of the pool.
  task<std::string> whole_body() {
    std::uint32_t next = 0;
    const auto append_piece = [this, &next](std::string& body) {
      if (body.empty())
        writer_.begin_body(body);
      return write_piece(body, next);
    };
    if (gathered_.num_bytes() + progress_.num_choices() * sizeof(answer_progress::track)
        < small_answer_bytes) {
      std::string body;
      while (!append_piece(body)) {
      }
      co_return body;
    }
    co_return co_await text_in_pieces(client_, shared_.work, append_piece, deadline());
  }

  /// Sends the end of the answer.
  task<void> conclude() {
    if (error_ && !streaming_)
      throw *error_;
    if (!streams()) {
      std::string body = co_await whole_body();
      response answer = json_response(200, std::move(body));
      answer.headers.push_back(seed_header());
      co_await client_.send(std::move(answer));
      co_return;
    }
    std::string last;
    if (error_ && error_->status >= 500)
      shared_.metrics->stream_failed();
    if (error_)
      last = openai::as_event(openai::error_body(*error_));
    else if (plan_.options.include_usage)
      last = openai::as_event(writer_.usage_chunk(progress_.usage()));
    last += openai::done_event;
    const bool taken = co_await client_.write(std::move(last));
    if (taken)
      co_await client_.end_stream();
    else
      shared_.metrics->client_gone(client_.too_slow());
  }

  exchange& client_;
  api& shared_;
  const generation_plan plan_;
  key_permit& permit_;
  const std::optional<room_demand> wanted_;
  const clock::time_point arrival_;
  const std::uint64_t trace_; // key of the request in the timeline; 0: it is not traced
  const openai::response_writer writer_;
  event_queue queue_;
  answer_progress progress_;
  gathered_answer gathered_; // for streams: log probabilities of prompts only
  std::vector<std::optional<std::vector<generated_token>>> prompt_logprobs_; // [prompts]
  std::vector<std::unique_ptr<generation_handle>> handles_;                  // [prompts that have begun]
  std::uint64_t num_writes_ = 0; // counted for a traced stream only
  bool has_begun_ = false;       // a prompt has a token or has ended
  bool streaming_ = false;       // the head of a stream was sent
  bool has_event_ = false;       // and an event after it
  bool too_slow_ = false;
  clock::time_point sign_due_ = clock::time_point::max(); // when a silent stream sends a sign of life
  std::optional<api_error> error_;
};

} // namespace

task<void> run_generation(exchange& client, api& shared, planned_generation what) {
  run answering{client, shared, std::move(what)};
  co_await answering.execute();
}

} // namespace troupe::http
