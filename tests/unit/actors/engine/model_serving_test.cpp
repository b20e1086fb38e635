// The actors over the real engines: a small random model in one process, two expert hosts, real threads.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/after.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <gtest/gtest.h>

#include "actors/attention/attention_worker.hpp"
#include "actors/cluster/directory.hpp"
#include "actors/engine/model_attention_engine.hpp"
#include "actors/engine/model_expert_engine.hpp"
#include "actors/expert/expert_host.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/type_ids.hpp"
#include "kernels/model/local_forward.hpp"
#include "kernels/self_test.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/reference/tested_backends.hpp"
#include "tests/unit/actors/placement_edits.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

struct served {
  std::vector<generated_token> tokens;
  std::vector<generated_token> prompt_logprobs;
  finish_reason finish = finish_reason::none;
  bool operator==(const served&) const = default;
};

struct quiet_config : caf::actor_system_config {
  quiet_config() {
    configure(*this);
    set("scheduler.max-threads", 2);
    set("logger.file-verbosity", caf::atom("quiet"));
    set("logger.console-verbosity", caf::atom("quiet"));
  }
};

struct served_model {
  std::string backend; ///< of tested_backends() or mixed_backends()
  const char* variant;
  model::dtype_choice dtype;
};

std::vector<served_model> served_models() {
  std::vector<served_model> result;
  for (const auto& backend : test::tested_backends()) {
    if (test::computes(backend, kernels::dtype::f32))
      result.push_back({backend, "qwen3", model::dtype_choice::float32});
    result.push_back({backend, "qwen3", model::dtype_choice::bfloat16});
    result.push_back({backend, "qwen2", model::dtype_choice::bfloat16});
  }
  for (const auto& backend : test::mixed_backends())
    result.push_back({backend, "qwen2", model::dtype_choice::bfloat16});
  return result;
}

class model_serving : public ::testing::TestWithParam<served_model> {
 public:
  void SetUp() override {
    config_ = model::load_config(folder_.folder());
    queue_ = std::make_shared<compute_queue>(2, kernels::select_isa().chosen);
    backend_ = open(queue_->context());
    type_ = backend_->make_experts()->type();
    shape_.fingerprint = "random";
    shape_.numerics_class = model::numerics_class(type_);
    shape_.vocab_size = static_cast<std::uint32_t>(config_.vocab_size);
    shape_.max_model_len = static_cast<std::uint32_t>(config_.max_context);
    shape_.row_bytes = static_cast<std::uint32_t>(kernels::bytes_of(type_, config_.hidden));
    for (const auto& layer : config_.layers) {
      const auto* moe = layer.moe();
      shape_.layer_experts.push_back(moe == nullptr ? 0 : static_cast<std::uint32_t>(moe->num_experts));
      shape_.num_topk =
          std::max(shape_.num_topk, moe == nullptr ? 0 : static_cast<std::uint32_t>(moe->num_topk));
    }
    directory_ = system_.spawn(local_directory);
    view_.experts.term = 1;
    for (const auto count : shape_.layer_experts)
      view_.experts.layers.push_back(shared_layer({1, std::vector<expert_hosts>(count)}));
  }

  void TearDown() override {
    for (const auto& actor : actors_)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(directory_, caf::exit_reason::user_shutdown);
  }

  /// The model under test, computed with `context`, or on its own device.
  std::unique_ptr<model::compute_backend> open(kernels::context& context) const {
    return test::open_backend(GetParam().backend, context, folder_.folder(), GetParam().dtype);
  }

  /// A host with the experts chosen by `wanted`, loaded and in the view.
  expert_host_actor add_host(const std::function<bool(expert_id)>& wanted) {
    model_expert_config engine;
    engine.shape = shape_;
    engine.backend = backend_->make_experts();
    engine.queue = queue_;
    expert_host_config config;
    config.address = {
        {actors_.size() + 1}, worker_role::expert, "expert-" + std::to_string(actors_.size()), ""};
    config.engine = make_model_expert_engine(std::move(engine));
    const auto host = spawn_expert_host(system_, config);
    publish(config.address, caf::actor_cast<caf::strong_actor_ptr>(host));
    std::vector<expert_id> experts;
    for (std::uint32_t layer = 0; layer < shape_.layer_experts.size(); ++layer)
      for (std::uint32_t index = 0; index < shape_.layer_experts[layer]; ++index)
        if (wanted({layer, index})) {
          experts.push_back({layer, index});
          edit(view_.experts.layers[layer]).experts[index].hosts.push_back(config.address.id);
        }
    caf::scoped_actor self{system_};
    self->request(host, 30s, host_order{1, 1, experts})
        .receive(
            [&](const host_report& report) {
              EXPECT_EQ(report.error, "");
              EXPECT_EQ(report.hosted.size(), experts.size());
            },
            [&](const caf::error& error) { ADD_FAILURE() << system_.render(error); });
    return host;
  }

  attention_worker_actor add_worker(attention_worker_config config = {}) {
    model_attention_config engine;
    engine.shape = shape_;
    engine.backend = backend_->load_attention({});
    engine.queue = queue_;
    engine.kv_cache_bytes = kv_cache_bytes;
    config.address = {
        {actors_.size() + 1}, worker_role::attention, "attention-" + std::to_string(actors_.size()), ""};
    config.directory = directory_;
    config.engine = make_model_attention_engine(std::move(engine));
    const auto worker = spawn_attention_worker(system_, config);
    publish(config.address, caf::actor_cast<caf::strong_actor_ptr>(worker));
    caf::anon_send(worker, view_);
    return worker;
  }

  static std::uint64_t few_or(std::uint64_t count) { return test::is_slow(GetParam().backend) ? 8 : count; }

  std::vector<generation_request> mixed_requests(std::uint64_t count) const {
    std::vector<generation_request> result;
    for (std::uint64_t number = 1; number <= count; ++number) {
      generation_request request;
      request.id = {{number}, static_cast<std::uint32_t>(number % 3)};
      for (std::uint64_t i = 0; i < 1 + number * 7 % 30; ++i)
        request.prompt.push_back(static_cast<std::int32_t>((number * 31 + i * 17) % 256));
      auto& sampling = request.sampling;
      sampling.seed = number;
      sampling.max_tokens = static_cast<std::int32_t>(3 + number % 10);
      sampling.temperature = number % 2 == 0 ? 0.0F : 0.9F;
      sampling.top_p = number % 5 == 0 ? 0.8F : 1.0F;
      sampling.repetition_penalty = number % 4 == 0 ? 1.2F : 1.0F;
      sampling.num_logprobs = number % 3 == 0 ? 3 : 0;
      sampling.prompt_logprobs = number % 6 == 0 ? 2 : -1;
      sampling.min_tokens = 2;
      sampling.stop_token_ids = {256, static_cast<std::int32_t>(number % 100)};
      sampling.logit_bias = {{static_cast<std::int32_t>(number % 200), 0.5F}};
      result.push_back(std::move(request));
    }
    return result;
  }

  /// Sends all requests at once and waits for all ends. `after` is called once with the first tokens.
  std::map<sequence_id, served> serve(const attention_worker_actor& worker,
                                      const std::vector<generation_request>& requests,
                                      const std::function<void()>& after = {}) {
    caf::scoped_actor self{system_};
    for (const auto& request : requests)
      self->send(worker, request);
    std::map<sequence_id, served> result;
    auto unfinished = requests.size();
    auto updates = 0;
    auto silent = false;
    while (unfinished > 0 && !silent)
      self->receive(
          [&](token_update& update) {
            auto& one = result[update.id];
            one.tokens.insert(one.tokens.end(), update.tokens.begin(), update.tokens.end());
            one.prompt_logprobs.insert(one.prompt_logprobs.end(), update.prompt_logprobs.begin(),
                                       update.prompt_logprobs.end());
            one.finish = update.finish;
            unfinished -= update.finish != finish_reason::none ? 1 : 0;
            if (++updates == 20 && after)
              after();
          },
          [&](const sequence_failed& failed) {
            ADD_FAILURE() << failed.text;
            --unfinished;
          },
          caf::after(120s) >>
              [&] {
                ADD_FAILURE() << unfinished << " requests make no progress";
                silent = true;
              });
    return result;
  }

  static constexpr std::uint64_t kv_cache_bytes = 8 << 20;

 protected:
  void publish(const worker_address& address, const caf::strong_actor_ptr& actor) {
    view_.workers.push_back(address);
    actors_.push_back(actor);
    caf::anon_send(directory_, caf::publish_atom_v, address.name, actor);
  }

  std::shared_ptr<compute_queue> queue_; // outlives the actors
  quiet_config system_config_;
  caf::actor_system system_{system_config_};
  test::random_model folder_{GetParam().variant};
  model::model_config config_;
  std::unique_ptr<model::compute_backend> backend_;
  kernels::dtype type_ = kernels::dtype::f32;
  model_shape shape_;
  local_directory_actor directory_;
  cluster_view view_;
  std::vector<caf::strong_actor_ptr> actors_;
};

TEST_P(model_serving, requests_together_equal_each_alone_and_the_plain_model) {
  add_host([](expert_id id) { return id.index % 2 == 0; });
  add_host([](expert_id id) { return id.index % 2 == 1; });
  attention_worker_config config;
  config.max_num_batched_tokens = 48;
  config.max_micro_batches = 2;
  config.min_micro_batches = 2;
  const auto worker = add_worker(config);
  const auto requests = mixed_requests(few_or(24));
  const auto together = serve(worker, requests);
  for (const auto& request : requests)
    EXPECT_EQ(serve(worker, {request}).at(request.id), together.at(request.id)) << request.id.request.value;

  kernels::thread_pool pool({.threads = 1, .cores = {}});
  kernels::context context{pool};
  model::local_forward plain{open(context), {.max_positions = 64}};
  generation_request greedy;
  greedy.id = {{1000}, 0};
  greedy.sampling.temperature = 0;
  greedy.sampling.max_tokens = 12;
  std::vector<std::uint32_t> prompt;
  for (std::uint32_t token = 3; token < 20; ++token) {
    prompt.push_back(token);
    greedy.prompt.push_back(static_cast<std::int32_t>(token));
  }
  const auto logits = plain.prefill(prompt, 5);
  const auto wanted = plain.greedy(std::span{logits}.last(config_.vocab_size), 12);
  const auto got = serve(worker, {greedy}).at(greedy.id);
  ASSERT_EQ(got.tokens.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(static_cast<std::uint32_t>(got.tokens[i].token), wanted[i]) << i;
}

TEST_P(model_serving, a_dead_host_changes_no_token) {
  const auto everything = [](expert_id) { return true; };
  const auto first = add_host(everything);
  add_host(everything);
  const auto worker = add_worker();
  const auto requests = mixed_requests(few_or(24));
  const auto undisturbed = serve(worker, requests);
  const auto disturbed = serve(worker, requests, [&] { caf::anon_send_exit(first, caf::exit_reason::kill); });
  EXPECT_EQ(disturbed, undisturbed);
}

TEST_P(model_serving, a_replay_continues_with_the_same_tokens) {
  add_host([](expert_id) { return true; });
  const auto worker = add_worker();
  for (const auto& request : mixed_requests(few_or(12))) {
    const auto whole = serve(worker, {request}).at(request.id);
    if (whole.tokens.size() < 2)
      continue;
    auto replay = request;
    replay.attempt = 1;
    replay.emitted = {whole.tokens[0].token};
    auto rest = whole;
    rest.tokens.erase(rest.tokens.begin());
    rest.prompt_logprobs.clear();
    EXPECT_EQ(serve(worker, {replay}).at(request.id), rest) << request.id.request.value;
  }
}

INSTANTIATE_TEST_SUITE_P(models, model_serving, ::testing::ValuesIn(served_models()), [](const auto& tested) {
  auto backend = tested.param.backend;
  std::replace(backend.begin(), backend.end(), '+', '_');
  return backend + "_" + tested.param.variant
         + (tested.param.dtype == model::dtype_choice::float32 ? "_float32" : "_bfloat16");
});

} // namespace
} // namespace troupe
