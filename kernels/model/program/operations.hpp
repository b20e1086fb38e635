// The operations of which layers consist. A runner (cpu_runner, cuda_attention) computes each kind; none
// knows a family of models.
#pragma once

#include "kernels/activation.hpp"
#include "kernels/model/program/tensors.hpp"
#include "kernels/rope.hpp"
#include "kernels/router.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::model {

/// The rows of a micro-batch that operations read and write. "Model" is the type that the model computes in.
enum class rows_of : std::uint8_t {
  residual,     ///< f32 [hidden]: the sum of all sublayers
  normed,       ///< model [hidden]: the input of a sublayer, and of experts
  projected,    ///< f32: a product on its way
  query_latent, ///< f32: multi-head latent attention's compressed query
  query_normed, ///< model: the same after its norm
  key_latent,   ///< f32: multi-head latent attention's compressed key and value, and the rotated key
  attended,     ///< model: the output of attention
  mlp_output,   ///< model [hidden]: the output of a dense MLP or shared expert
};

/// Whether rows are f32; the others are of the model's type.
constexpr bool is_f32(rows_of kind) {
  return kind == rows_of::residual || kind == rows_of::projected || kind == rows_of::query_latent
         || kind == rows_of::key_latent;
}

enum class norm_kind : std::uint8_t {
  rms,   ///< x / sqrt(mean(x²) + epsilon) · weight
  layer, ///< (x − mean) / sqrt(variance + epsilon) · weight + bias
};

struct norm_op {
  norm_kind kind = norm_kind::rms;
  float epsilon = 0.0F;
  tensor_requirement weight;
  std::optional<tensor_requirement> bias{}; ///< of a LayerNorm
  rows_of from = rows_of::residual;
  rows_of to = rows_of::normed;

  std::size_t width() const { return weight.shape.front(); }
};

/// to = from · matrixᵀ + bias; to the residual stream, factor · that is added.
struct project_op {
  rows_of from = rows_of::normed;
  rows_of to = rows_of::projected;
  matrix_ref matrix;
  float factor = 1.0F;

  bool adds() const { return to == rows_of::residual; }
};

/// An RMS norm over queries and one over keys.
struct query_key_norm {
  bool per_head = true; ///< weights [head_dim] for every head; false: over all heads of a row together
  bool follows_rotation = false;
  float epsilon = 0.0F;
  std::optional<tensor_requirement> query{}; ///< none: all weights are 1
  std::optional<tensor_requirement> key{};
};

/// Queries are multiplied with 1 + scale · ln(1 + ⌊(position + 1) / floor⌋) (Llama 4).
struct query_temperature {
  float scale = 0.0F;
  float floor = 0.0F;
};

/// Grouped-query attention: projected [queries | keys | values] → attended. Norms and rotates queries and
/// keys, writes keys and values to the cache, attends.
struct attend_op {
  std::size_t num_heads = 0;
  std::size_t num_kv_heads = 0;
  std::size_t head_dim = 0;
  std::optional<query_key_norm> norm{};
  std::optional<kernels::rope_style> rotation = kernels::rope_style::rotate_half; ///< none: no positions
  std::optional<query_temperature> temperature{};
  float scale = 0.0F;
  std::size_t window = 0;                    ///< tokens that a query sees, its own included; 0: all
  std::size_t chunk = 0;                     ///< a query sees only its own chunk of so many tokens; 0: all
  std::optional<tensor_requirement> sinks{}; ///< [num_heads]: a logit per head without a value

  std::size_t query_width() const { return num_heads * head_dim; }

  std::size_t kv_width() const { return num_kv_heads * head_dim; }
};

/// Multi-head latent attention in its absorbed form: projected (queries) and key_latent → attended. The cache
/// holds the normed latent and the rotated key, for all heads together.
/// @source DeepSeek-V2 § 2.1
struct attend_latent_op {
  std::size_t num_heads = 0;
  std::size_t nope_dim = 0;   ///< numbers of a query that do not rotate; they come first
  std::size_t rope_dim = 0;   ///< numbers that do
  std::size_t latent_dim = 0; ///< kv_lora_rank
  std::size_t value_dim = 0;
  float scale = 0.0F;
  kernels::rope_style rotation = kernels::rope_style::interleaved;
  float norm_epsilon = 0.0F;
  tensor_requirement norm;             ///< [latent_dim]
  std::vector<matrix_ref> key_heads;   ///< [latent_dim, nope_dim] each: from a query to the latent
  std::vector<matrix_ref> value_heads; ///< [value_dim, latent_dim] each

  std::size_t head_dim() const { return nope_dim + rope_dim; }

  /// Numbers of a token in the cache.
  std::size_t key_width() const { return latent_dim + rope_dim; }
};

/// Where a checkpoint holds the experts of a layer in two tensors.
struct fused_experts {
  enum class layout : std::uint8_t {
    rows,        ///< [experts, 2 · intermediate, hidden], gate first; [experts, hidden, intermediate]
    columns,     ///< [experts, hidden, 2 · intermediate], gate first; [experts, intermediate, hidden]
    interleaved, ///< the same with gate and up in turn
  };

  std::string gate_up;
  std::string down;
  layout order = layout::rows;
  std::string gate_up_bias{}; ///< [experts, 2 · intermediate], in turn; empty: none
  std::string down_bias{};    ///< [experts, hidden]
};

/// Routed experts.
struct moe_spec {
  std::size_t num_experts = 0;
  std::size_t num_topk = 0;
  std::size_t intermediate = 0;
  std::size_t hidden = 0;
  kernels::activation act = kernels::activation::silu;
  float act_limit = kernels::usual_act_limit;
  bool has_bias = false;
  std::string prefix{}; ///< of the tensors' names: prefix + expert + "." + gate + ".weight"
  std::string gate;
  std::string up{}; ///< empty: they are not gated
  std::string down;
  std::vector<fused_experts> fused{}; ///< where they may be instead
  bool is_always_fused = false;       ///< they are never one by one

  bool is_gated() const { return !up.empty(); }

  /// The tensors of one expert.
  mlp_ref expert(std::size_t index) const;
};

/// Chooses experts for normed rows (kernels/router.hpp). The pass stops behind it, until the experts' answers
/// are there.
struct route_op {
  matrix_ref matrix{};
  kernels::router_score score = kernels::router_score::softmax;
  kernels::expert_groups groups{};
  std::optional<tensor_requirement> choice_bias{}; ///< [num_experts]
  bool renormalise = false;
  float sum_offset = 0.0F;
  float least_sum = 0.0F;
  float scale = 1.0F;
  float jitter = 0.0F;
  bool weighs_input = false; ///< the weight multiplies the expert's input, not its output (Llama 4: top-1)
  moe_spec experts{};
};

/// residual += the answers of the experts, weighted. Operations between route_op and this one need no answer.
struct combine_op {};

/// normed → mlp_output: a dense MLP or a shared expert.
struct feed_forward_op {
  mlp_ref mlp;
};

/// residual += factor · mlp_output, times sigmoid(gate · normed) if there is a gate.
struct add_op {
  std::optional<tensor_requirement> gate{}; ///< [1, hidden]
  float factor = 1.0F;
};

using operation = std::variant<norm_op, project_op, attend_op, attend_latent_op, route_op, combine_op,
                               feed_forward_op, add_op>;

/// A decoder layer.
struct layer_program {
  std::vector<operation> operations;

  /// Its first operation of a kind, or null.
  template <class Op>
  const Op* find() const noexcept {
    for (const auto& op : operations)
      if (const auto* found = std::get_if<Op>(&op))
        return found;
    return nullptr;
  }

  template <class Op>
  Op* find() noexcept {
    return const_cast<Op*>(std::as_const(*this).find<Op>());
  }

  /// Its routed experts, or null for a dense layer.
  const moe_spec* moe() const noexcept {
    const auto* route = find<route_op>();
    return route == nullptr ? nullptr : &route->experts;
  }
};

} // namespace troupe::model
