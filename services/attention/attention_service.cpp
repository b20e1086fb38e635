#include "services/attention/attention_service.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <caf/scoped_actor.hpp>

#include "actors/attention/kv_needs.hpp"
#include "actors/engine/model_attention_engine.hpp"
#include "actors/protocol/error.hpp"
#include "kernels/model/numerics.hpp"
#include "services/attention/kv_room.hpp"
#include "services/model/compute.hpp"
#include "services/model/lost_device.hpp"
#include "services/startup/stop_signal.hpp"

namespace troupe {

namespace {

/// Timeout of the last report after the worker has left.
constexpr auto report_patience = std::chrono::seconds{1};

/// Reports progress, and aborts at a stop signal: converting a large checkpoint takes minutes.
model::load_progress told_to(std::shared_ptr<load_progress> load) {
  return [load = std::move(load)](std::size_t loaded, std::size_t total) {
    if (stop_signal::is_pending())
      throw interrupted("stopped before the weights of the attention side were loaded");
    load->reached(loaded, total);
  };
}

std::uint32_t wanted_context(const attention_engine& engine, const model_options& model) {
  const auto all = engine.shape().max_model_len;
  return model.max_model_len == 0 ? all : std::min(model.max_model_len, all);
}

/// One line for operators: the model, its context and its KV cache as set by the flags.
std::string description_of(const attention_engine& engine, const model_options& model, const kv_needs& needs,
                           std::uint64_t kv_tokens, std::uint64_t kv_cache_bytes) {
  const auto& shape = engine.shape();
  const auto wanted = wanted_context(engine, model);
  const auto longest = needs.longest(engine.num_blocks(), wanted);
  auto text = model.model_name() + ": context " + std::to_string(longest) + " tokens, KV cache "
              + std::to_string(kv_tokens) + " tokens, " + shape.numerics_class;
  if (longest < wanted) {
    const auto block_bytes = kv_cache_bytes / engine.num_blocks() + 1; // rounded up
    text += "; the KV cache limits the context: " + std::to_string(wanted) + " tokens take --kv-cache-memory "
            + std::to_string(((block_bytes * needs.most_of_all(wanted)) >> 20) + 1) + "M";
  }
  return text;
}

} // namespace

attention_service::attention_service(const service_site& site, const model_source& source,
                                     std::shared_ptr<compute_queue> queue, const model_options& model,
                                     const attention_options& options, memory_budget& budget,
                                     std::shared_ptr<load_progress> load,
                                     std::shared_ptr<attention_metrics> metrics)
    : site_(site) {
  log_gpu_refused(source, site.log);
  model::load_options how{
      .max_positions = model.max_model_len, .kv_type = source.kv_type, .tables_by_reach = true};
  load->begin("loading-attention", "loading the attention side");
  model_attention_config engine;
  engine.shape = shape_of(source);
  // A GPU's weights and KV cache take no host memory.
  const bool is_limited = budget.is_limited() && source.device.kind == model::device_kind::cpu;
  const memory_budget host = is_limited ? budget : memory_budget(std::nullopt);
  attention_memory held{.is_mapped = is_limited && source.cpu_weights->is_mapped(),
                        .reserve = attention_reserve(source.config, source.type,
                                                     model::positions_of(source.config, how), options)};
  auto progress = [tell = told_to(load), &held, &host](std::size_t loaded, std::size_t total) {
    tell(loaded, total);
    held.weights = loaded;
    check_attention_fits(held, host); // before the system kills the process at the limit
  };
  engine.backend = make_backend(source, queue->context(), {.graphs = options.gpu_steps == "graphs"})
                       ->load_attention(how, progress);
  load->end();
  engine.shape.numerics_class = model::attention_class(std::move(engine.shape.numerics_class), source.config,
                                                       engine.backend->max_positions());
  engine.queue = std::move(queue);
  held.weights = engine.backend->num_bytes();
  const auto kv_cache_bytes =
      kv_room_of(options.kv_cache_memory, engine.backend->kv_block_bytes(engine.block_tokens), held, host);
  engine.kv_cache_bytes = kv_cache_bytes;
  budget.take(is_limited ? (held.is_mapped ? 0 : held.weights) + held.reserve + kv_cache_bytes : 0);
  engine.device_lost = end_for_lost_device(site.log);
  attention_worker_config worker;
  worker.address = site.address;
  worker.max_num_seqs = options.max_num_seqs;
  worker.max_waiting = options.max_num_seqs + defaults::max_waiting_seqs;
  worker.max_num_batched_tokens = options.max_num_batched_tokens;
  worker.max_model_len = model.max_model_len;
  worker.max_micro_batches = options.micro_batches;
  worker.prefix_caching = options.prefix_caching;
  worker.directory = site.directory;
  worker.engine = make_model_attention_engine(std::move(engine));
  reports_ = {.worker = {},
              .id = site.address.id,
              .fingerprint = worker.engine->shape().fingerprint,
              .layer_experts = worker.engine->shape().layer_experts,
              .scheduler_endpoints = site.scheduler_endpoints,
              .directory = site.directory};
  const kv_needs needs(worker.engine->kv_reaches(), worker.engine->block_tokens(),
                       options.max_num_batched_tokens);
  const auto kv_tokens = needs.capacity(worker.engine->num_blocks(), options.max_num_seqs,
                                        wanted_context(*worker.engine, model));
  site.log.line(
      "attention-ready", description_of(*worker.engine, model, needs, kv_tokens, kv_cache_bytes),
      {{"model", model.model_name()}, {"kv_tokens", kv_tokens}, {"max_num_seqs", options.max_num_seqs}});
  worker.metrics = std::move(metrics);
  actor_ = spawn_attention_worker(site.system, std::move(worker));
}

void attention_service::join() {
  membership_.emplace(site_, caf::actor_cast<caf::strong_actor_ptr>(actor_), pulse_);
  reports_.worker = caf::actor_cast<caf::strong_actor_ptr>(actor_);
  reporter_ = spawn_activation_reporter(site_.system, reports_);
  reports_.worker = nullptr;
}

void attention_service::stop(std::chrono::milliseconds patience) {
  if (membership_) {
    membership_->stop(patience, [this] {
      caf::scoped_actor self(site_.system);
      self->request(reporter_, report_patience, caf::leave_atom_v)
          .receive([] {}, [&](const caf::error& error) { site_.log.line("history-late", text_of(error)); });
    });
  }
  reporter_ = nullptr;
  actor_ = nullptr;
}

} // namespace troupe
