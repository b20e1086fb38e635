#include "services/process/model_source.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "kernels/model/numerics.hpp"
#include "kernels/model/open_weights.hpp"
#include "kernels/model/peer_weights.hpp"
#include "services/options/device_choice.hpp"
#include "services/process/compute.hpp"
#include "services/process/stop_signal.hpp"

namespace troupe {

namespace {

model::dtype_choice dtype_choice_of(const std::string& text) {
  if (text == "float32") {
    return model::dtype_choice::float32;
  }
  return text == "bfloat16" ? model::dtype_choice::bfloat16 : model::dtype_choice::automatic;
}

/// "WHAT: a, b and 3 more"; the names come from files, so what is no printable ASCII is shown as '?'.
void add_names(const char* what, const std::vector<std::string>& names, std::string& out) {
  constexpr size_t shown = 8;
  constexpr size_t longest = 100;
  if (names.empty()) {
    return;
  }
  out += (out.empty() ? "" : "; ") + std::string{what} + ": ";
  for (size_t i = 0; i < std::min(names.size(), shown); ++i) {
    out += i == 0 ? "" : ", ";
    for (char c : names[i].substr(0, longest)) {
      out += c >= ' ' && c <= '~' ? c : '?';
    }
  }
  if (names.size() > shown) {
    out += " and " + std::to_string(names.size() - shown) + " more";
  }
}

void take_device(const chosen_device& chosen, model_source& source) {
  source.device = chosen.device;
  source.gpu_refused = chosen.gpu_refused;
}

/// The checkpoint for a GPU; where there are no kernels for the model, and nobody asked for that GPU, the
/// device becomes the CPU.
/// @throws option_error where somebody did
void open_for_device(const model_options& options, const model::open_options& open, model_source& source) {
  auto tensors = model::open_tensors(options.model_dir, source.config, open);
  if (auto problem = model::cuda_model_problem(source.config, tensors->type(), tensors->quant())) {
    if (parse_device(options.device).kind != device_choice::kind_type::automatic) {
      throw option_error("--device: '" + options.device + "': " + *problem);
    }
    source.gpu_refused = *problem;
    source.device = {};
    return;
  }
  source.tensors = std::move(tensors);
  source.weights = source.tensors;
}

/// @throws option_error where a flag asks for something else than the cluster has
void check_asked(const model_options& options, const model::class_parts& has,
                 const std::string& numerics_class) {
  auto asked = quantization_of(options);
  const char* flag = nullptr;
  if (options.dtype != "auto"
      && has.type != (options.dtype == "float32" ? kernels::dtype::f32 : kernels::dtype::bf16)) {
    flag = "--dtype";
  } else if (options.expert_quant != "auto" && asked.experts != has.quant.experts) {
    flag = "--expert-quant";
  } else if (options.dense_quant != "auto" && asked.dense != has.quant.dense) {
    flag = "--dense-quant";
  }
  if (flag != nullptr) {
    throw option_error(std::string{flag}
                       + ": weights that come from other workers are as the cluster has them: '"
                       + numerics_class + "'");
  }
}

void give_up_when_told() {
  if (stop_signal::is_pending()) {
    throw interrupted("stopped before the weights were packed; nothing is left of them");
  }
}

} // namespace

model::pack_progress packing_lines() {
  return [log = process_log("weights"), told = std::chrono::steady_clock::now()](size_t packed,
                                                                                 size_t total) mutable {
    give_up_when_told();
    auto now = std::chrono::steady_clock::now();
    if (now - told >= std::chrono::seconds{1} || packed == total) {
      told = now;
      log.line("packing-experts", std::to_string(packed) + " of " + std::to_string(total));
    }
  };
}

model::quantization quantization_of(const model_options& options) {
  model::quantization quant;
  if (options.expert_quant == "int8") {
    quant.experts = model::expert_quant::int8;
  } else if (options.expert_quant == "int4") {
    quant.experts = options.int4_group == "32"   ? model::expert_quant::int4_group32
                    : options.int4_group == "64" ? model::expert_quant::int4_group64
                                                 : model::expert_quant::int4_channel;
  }
  if (options.dense_quant == "int8") {
    quant.dense = model::dense_quant::int8;
  } else if (options.dense_quant == "int4") {
    quant.dense = model::dense_quant::int4_group32;
  }
  if (options.activation_quant == "int8") {
    quant.rows = kernels::row_quant::int8;
  }
  return quant;
}

model::weight_coding coding_of(const model_options& options, const kernels::kernel_plan& plan) {
  bool coded = options.weight_coding == "auto" ? plan.coded_weights : options.weight_coding == "exponents";
  return coded ? model::weight_coding::exponents : model::weight_coding::none;
}

kernel_demand demand_of(const model_options& options, const model::model_config& config,
                        const model::weight_source& weights, bool is_packed) {
  const auto& quant = weights.quant();
  const bool has_bf16 =
      weights.type() == kernels::dtype::bf16
      && (quant.experts == model::expert_quant::none || quant.dense == model::dense_quant::none);
  return {.config = config,
          .type = weights.type(),
          .quant = quant,
          .coding = options.weight_coding == "exponents" ? model::weight_coding::exponents
                                                         : model::weight_coding::none,
          .may_code = has_bf16 && (is_packed || options.weight_coding == "auto")};
}

model_source open_model(const model_options& options, plan_use use) {
  options.check();
  model_source source;
  take_device(choose_device(options), source);
  kernels::isa set = choose_isa(options).chosen;
  source.config = model::load_config(options.model_dir);
  source.generation = model::load_generation_config(options.model_dir, source.config);
  const auto choose = [&](const model::weight_source& weights, bool is_packed) {
    source.plan = choose_plan(options, demand_of(options, source.config, weights, is_packed), use,
                              process_log("kernels"));
  };
  model::open_options open{.dtype = dtype_choice_of(options.dtype),
                           .quant = quantization_of(options),
                           .experts_as_packed = options.expert_quant == "auto",
                           .dense_as_packed = options.dense_quant == "auto",
                           .set = set,
                           .choose_coding =
                               [&](const model::tensor_source& tensors) {
                                 choose(tensors, false);
                                 return coding_of(options, *source.plan);
                               },
                           .memory = options.weights_memory == "copied" ? model::weight_memory::copied
                                                                        : model::weight_memory::mapped,
                           .unused_tensors =
                               [&](std::span<const std::string> names) {
                                 source.unused_tensors.assign(names.begin(), names.end());
                               },
                           .cache = {.folder = options.weights_cache,
                                     .threads = options.num_threads(),
                                     .progress = packing_lines(),
                                     .waiting = [](const std::filesystem::path& file, bool first) {
                                       give_up_when_told();
                                       if (first) {
                                         process_log("weights").line(
                                             "waiting-for-cache", "another process packs " + file.string());
                                       }
                                     }}};
  if (source.device.kind != model::device_kind::cpu) {
    open_for_device(options, open, source);
  }
  if (source.device.kind == model::device_kind::cpu) {
    source.cpu_weights = model::open_weights(options.model_dir, source.config, open);
    if (!source.plan) {
      choose(*source.cpu_weights, true);
    }
    if (options.weights_memory == "auto" && source.plan->copied_weights) {
      open.memory = model::weight_memory::copied;
      open.choose_coding = [&](const model::tensor_source&) { return coding_of(options, *source.plan); };
      source.cpu_weights = model::open_weights(options.model_dir, source.config, open);
    }
    source.weights = source.cpu_weights;
  }
  source.type = source.weights->type();
  source.fingerprint = source.weights->fingerprint();
  source.kv_type = options.kv_cache_dtype == "int8" ? kernels::dtype::int8 : source.type;
  source.numerics_class =
      model::numerics_class(source.type, source.weights->quant(), source.kv_type, source.device.kind);
  return source;
}

model_source open_model_of_peers(const model_options& options, const std::string& fingerprint,
                                 const std::string& numerics_class) {
  options.check();
  model_source source;
  take_device(choose_device(options), source);
  if (source.device.kind != model::device_kind::cpu) {
    throw option_error(
        "--weights-from: only workers that compute on the CPU take weights from others; choose "
        "--device cpu, or files");
  }
  auto parts = model::parts_of_class(numerics_class);
  if (!parts) {
    throw option_error("--weights-from: the cluster's experts are computed as '" + numerics_class
                       + "', which this program on this machine does not");
  }
  check_asked(options, *parts, numerics_class);
  source.config = model::load_config(options.model_dir);
  source.generation = model::load_generation_config(options.model_dir, source.config);
  source.cpu_weights = std::make_shared<const model::peer_weights>(source.config, parts->type, parts->quant,
                                                                   fingerprint, options.model_dir);
  // Experts come coded or plain, as whoever sends them has them.
  source.plan = choose_plan(options, demand_of(options, source.config, *source.cpu_weights, true),
                            plan_use::computes, process_log("kernels"));
  source.weights = source.cpu_weights;
  source.type = parts->type;
  source.kv_type = parts->kv_type;
  source.fingerprint = fingerprint;
  source.numerics_class = numerics_class;
  return source;
}

std::string ignored_text(const model_source& source) {
  std::string text;
  add_names("config.json", source.config.ignored, text);
  add_names("generation_config.json", source.generation.ignored, text);
  add_names("tensors", source.unused_tensors, text);
  return text;
}

void log_ignored(const model_source& source, const process_log& log) {
  if (auto text = ignored_text(source); !text.empty()) {
    log.line("model-ignored", text);
  }
}

void log_gpu_refused(const model_source& source, const process_log& log) {
  if (!source.gpu_refused.empty()) {
    log.line("gpu-refused", source.gpu_refused);
  }
}

model_shape shape_of(const model_source& source) {
  model_shape shape;
  shape.fingerprint = source.fingerprint;
  shape.numerics_class = source.numerics_class;
  shape.vocab_size = static_cast<uint32_t>(source.config.vocab_size);
  shape.max_model_len = static_cast<uint32_t>(source.config.max_context);
  shape.row_bytes = static_cast<uint32_t>(kernels::bytes_of(source.type, source.config.hidden));
  for (const auto& layer : source.config.layers) {
    const auto* moe = layer.moe();
    shape.layer_experts.push_back(moe != nullptr ? static_cast<uint32_t>(moe->num_experts) : 0);
    shape.num_topk = std::max(shape.num_topk, moe != nullptr ? static_cast<uint32_t>(moe->num_topk) : 0);
  }
  return shape;
}

} // namespace troupe
