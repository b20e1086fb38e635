#include "tests/unit/http/fake_backend.hpp"

#include <algorithm>
#include <chrono>

#include "tests/unit/http/fake_codec.hpp"

namespace troupe::http_test {

namespace {

constexpr auto patience = std::chrono::seconds{10};

/// `token` with the logprobs -0.5 for itself and -1, -1.5, … for the following tokens.
generated_token with_logprobs(std::int32_t token, std::int32_t num_top) {
  generated_token result;
  result.token = token;
  if (num_top < 0)
    return result;
  result.logprob = -0.5F;
  result.rank = 1;
  for (std::int32_t i = 0; i < num_top; ++i)
    result.top.push_back({token + i, -0.5F - 0.5F * static_cast<float>(i), i + 1});
  return result;
}

} // namespace

class fake_handle final : public generation_handle {
 public:
  explicit fake_handle(std::shared_ptr<fake_job> job) : job_(std::move(job)) {}

  void stop(std::uint32_t choice) override {
    const std::lock_guard lock{job_->mutex_};
    job_->stopped_.insert(choice);
    job_->changed_.notify_all();
  }

  void cancel() override {
    const std::lock_guard lock{job_->mutex_};
    job_->cancelled_ = true;
    job_->changed_.notify_all();
  }

 private:
  std::shared_ptr<fake_job> job_;
};

void fake_job::say(std::uint32_t choice, const std::string& text) {
  std::vector<generated_token> tokens;
  for (const char c : text)
    tokens.push_back(with_logprobs(static_cast<unsigned char>(c), asked.sampling.num_logprobs));
  listener->on_tokens(choice, tokens, finish_reason::none);
}

void fake_job::say_last(std::uint32_t choice, const std::string& text, finish_reason reason) {
  if (text.size() > 1)
    say(choice, text.substr(0, text.size() - 1));
  const auto last = static_cast<unsigned char>(text.back());
  listener->on_tokens(choice, {with_logprobs(last, asked.sampling.num_logprobs)}, reason);
}

void fake_job::finish(std::uint32_t choice, finish_reason reason, std::int32_t stop_token) {
  std::vector<generated_token> last;
  if (stop_token >= 0)
    last.push_back(with_logprobs(stop_token, asked.sampling.num_logprobs));
  listener->on_tokens(choice, last, reason);
}

void fake_job::fail(ec code, const std::string& text) {
  listener->on_error(code, text);
}

void fake_job::say_prompt() {
  if (asked.sampling.prompt_logprobs < 0)
    return;
  std::vector<generated_token> tokens;
  for (std::size_t i = 1; i < asked.prompt.size(); ++i)
    tokens.push_back(with_logprobs(asked.prompt[i], asked.sampling.prompt_logprobs));
  listener->on_prompt_logprobs(tokens);
}

bool fake_job::wait_cancelled() {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, patience, [this] { return cancelled_; });
}

bool fake_job::wait_stopped(std::uint32_t choice) {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, patience, [this, choice] { return stopped_.count(choice) > 0; });
}

bool fake_job::cancelled() const {
  const std::lock_guard lock{mutex_};
  return cancelled_;
}

fake_backend::~fake_backend() {
  for (std::thread& thread : threads_)
    thread.join();
}

std::unique_ptr<generation_handle> fake_backend::start(generation_job job,
                                                       std::shared_ptr<generation_listener> listener) {
  auto fresh = std::make_shared<fake_job>(std::move(job), std::move(listener));
  const std::lock_guard lock{mutex_};
  jobs_.push_back(fresh);
  threads_.emplace_back([this, fresh] { play(*fresh); });
  begun_.notify_all();
  return std::make_unique<fake_handle>(fresh);
}

void fake_backend::view(std::function<void(std::variant<last_view, backend_error>)> then) {
  last_view seen;
  seen.cluster.ready = ready;
  seen.cluster.workers = {{{7}, worker_role::expert, "expert-0", "127.0.0.1:1"}};
  seen.scheduler_away = scheduler_away;
  seen.has_been_ready = has_been_ready;
  then(seen);
}

void fake_backend::ask(const control_question& question, std::function<void(control_outcome)> then) {
  then(std::visit([this](const auto& asked) { return answer(asked); }, question));
}

control_outcome fake_backend::answer(const status_question&) const {
  if (scheduler_away)
    return backend_error{ec::peer_down, "the scheduler is away"};
  scheduler_status status;
  status.term = 3;
  status.ready = ready;
  worker_status worker;
  worker.address = {{7}, worker_role::expert, "expert-0", "127.0.0.1:1"};
  worker.hosted = {{0, 0}, {0, 1}};
  status.workers = {worker};
  if (with_attention_worker) {
    worker.address.role = worker_role::attention;
    worker.load.of_role = attention_load{};
    status.workers.push_back(worker);
  }
  status.experts.epoch = 2;
  status.experts.layers = {
      std::make_shared<const layer_placement>(layer_placement{5, {{{{7}}}, {{{7}, {8}}}}})};
  return status;
}

control_outcome fake_backend::answer(const history_question& question) const {
  if (scheduler_away)
    return backend_error{ec::not_ready, "the history does not answer"};
  history_snapshot known{"model", {2, 0}, 600'000, 10'000, 5, 10, {{1.5, 0.1}, {}}, {}};
  for (std::uint64_t i = 1; i <= std::min(question.max_windows, 40U); ++i)
    known.windows.push_back({{7}, i, 5000 * i, encode({5000, {i, 1, {{0, 2 * i}, {}}}})});
  return known;
}

control_outcome fake_backend::answer(const placement_question&) const {
  if (scheduler_away)
    return backend_error{ec::not_ready, "the rebalancer does not answer"};
  return planner;
}

control_outcome fake_backend::answer(const placement_command& command) {
  commands.push_back(command);
  return obey(command);
}

control_outcome fake_backend::answer(const trace_command& command) {
  traced.push_back(command);
  return trace_answer;
}

void fake_backend::say_hello(fake_job& job) {
  const std::string text = "hello wörld";
  const auto most = static_cast<std::size_t>(job.asked.sampling.max_tokens);
  job.say_prompt();
  for (std::uint32_t choice = 0; choice < job.asked.num_choices; ++choice) {
    for (std::size_t i = 0; i < std::min(text.size(), most - 1); ++i)
      job.say(choice, text.substr(i, 1));
    if (most > text.size())
      job.finish(choice, finish_reason::stop, eos);
    else
      job.say_last(choice, text.substr(most - 1, 1), finish_reason::length);
  }
}

std::shared_ptr<fake_job> fake_backend::job(std::size_t n) {
  std::unique_lock lock{mutex_};
  if (!begun_.wait_for(lock, patience, [this, n] { return jobs_.size() > n; }))
    return nullptr;
  return jobs_[n];
}

std::size_t fake_backend::num_jobs() {
  const std::lock_guard lock{mutex_};
  return jobs_.size();
}

} // namespace troupe::http_test
