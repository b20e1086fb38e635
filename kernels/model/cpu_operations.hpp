// The operations of a program with their weights in the layout of the CPU's kernels.
#pragma once

#include "kernels/expert_ffn.hpp"
#include "kernels/model/program/operations.hpp"
#include "kernels/packed_matrix.hpp"

#include <span>
#include <variant>
#include <vector>

namespace troupe::model {

struct cpu_norm {
  norm_op op;
  std::vector<float> weight; // [width]
  std::vector<float> bias;   // [width] or empty
};

struct cpu_project {
  project_op op;
  kernels::packed_matrix matrix;
  std::vector<float> bias; // [outputs] or empty
};

struct cpu_attend {
  attend_op op;
  std::vector<float> query_norm; // as op.norm; or empty
  std::vector<float> key_norm;
  std::span<const float> query_factors; // [positions], of all layers of one temperature; or empty
  std::vector<float> sinks;             // [heads] or empty
};

struct cpu_attend_latent {
  attend_latent_op op;
  std::vector<float> norm; // [latent_dim]
  std::vector<kernels::packed_matrix> key_heads;
  std::vector<kernels::packed_matrix> value_heads;
};

struct cpu_route {
  route_op op;
  kernels::packed_matrix matrix; // [experts, hidden]
  std::vector<float> bias;       // [experts] or empty
  std::vector<float> choice_bias;
};

struct cpu_feed_forward {
  kernels::expert_weights weights;
};

struct cpu_add {
  add_op op;
  std::vector<float> gate; // [hidden] or empty
};

using cpu_operation = std::variant<cpu_norm, cpu_project, cpu_attend, cpu_attend_latent, cpu_route,
                                   combine_op, cpu_feed_forward, cpu_add>;

} // namespace troupe::model
