#include "services/attention/attention_service.hpp"

#include <algorithm>
#include <utility>

#include <caf/scoped_actor.hpp>

#include "actors/engine/model_attention_engine.hpp"
#include "actors/error.hpp"
#include "services/process/compute.hpp"
#include "services/process/lost_device.hpp"
#include "services/process/stop_signal.hpp"

namespace troupe {

namespace {

/// How long the last report may take when the worker has left.
constexpr auto report_patience = std::chrono::seconds{1};

/// Tells of a load in steps of at least a tenth, and of 64 MiB: a small one is over before it can be read.
/// Gives up when the process is told to stop: a large checkpoint takes minutes to convert.
model::load_progress progress_lines(const process_log& log) {
  return [log, told = size_t{0}](size_t loaded, size_t total) mutable {
    if (stop_signal::is_pending()) {
      throw interrupted("stopped before the weights of the attention side were loaded");
    }
    if (loaded - told >= std::max(total / 10, size_t{64} << 20) || (loaded == total && told > 0)) {
      told = loaded;
      log.line("loading-attention",
               std::to_string(loaded >> 20) + " of " + std::to_string(total >> 20) + " MiB");
    }
  };
}

/// What is served here, in one line: an operator sees what the flags have made of the model.
std::string description_of(const attention_engine& engine, const model_options& model,
                           const attention_options& options) {
  const auto& shape = engine.shape();
  const auto kv_tokens = uint64_t{engine.num_blocks()} * engine.block_tokens();
  const auto wanted =
      model.max_model_len == 0 ? shape.max_model_len : std::min(model.max_model_len, shape.max_model_len);
  auto text = model.model_name() + ": context " + std::to_string(std::min<uint64_t>(wanted, kv_tokens))
              + " tokens, KV cache " + std::to_string(kv_tokens) + " tokens, " + shape.numerics_class;
  if (kv_tokens < wanted) {
    const auto bytes_per_token = options.kv_cache_memory / kv_tokens + 1; // rounded up
    text += "; the KV cache limits the context: " + std::to_string(wanted) + " tokens take --kv-cache-memory "
            + std::to_string(((bytes_per_token * wanted) >> 20) + 1) + "M";
  }
  return text;
}

} // namespace

attention_service::attention_service(const service_site& site, const model_source& source,
                                     std::shared_ptr<compute_queue> queue, const model_options& model,
                                     const attention_options& options,
                                     std::shared_ptr<attention_metrics> metrics)
    : site_(site) {
  log_gpu_refused(source, site.log);
  model::load_options load{.max_positions = model.max_model_len, .kv_type = source.kv_type};
  model_attention_config engine;
  engine.shape = shape_of(source);
  engine.backend = make_backend(source, queue->context(), {.graphs = options.gpu_steps == "graphs"})
                       ->load_attention(load, progress_lines(site.log));
  engine.queue = std::move(queue);
  engine.kv_cache_bytes = options.kv_cache_memory;
  engine.device_lost = end_for_lost_device(site.log);
  attention_worker_config worker;
  worker.address = site.address;
  worker.max_num_seqs = options.max_num_seqs;
  worker.max_waiting = options.max_num_seqs + defaults::max_waiting_seqs;
  worker.max_num_batched_tokens = options.max_num_batched_tokens;
  worker.max_model_len = model.max_model_len;
  worker.max_micro_batches = options.micro_batches;
  worker.directory = site.directory;
  worker.engine = make_model_attention_engine(std::move(engine));
  reports_ = {.worker = {},
              .id = site.address.id,
              .fingerprint = worker.engine->shape().fingerprint,
              .layer_experts = worker.engine->shape().layer_experts,
              .scheduler_endpoints = site.scheduler_endpoints,
              .directory = site.directory};
  site.log.line("attention-ready", description_of(*worker.engine, model, options),
                {{"model", model.model_name()},
                 {"kv_tokens", uint64_t{worker.engine->num_blocks()} * worker.engine->block_tokens()},
                 {"max_num_seqs", options.max_num_seqs}});
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
