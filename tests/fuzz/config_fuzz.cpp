// Hostile config.json and generation_config.json give a clear error or a program with consistent shapes.
#include "kernels/model/checkpoint.hpp"
#include "kernels/model/generation_config.hpp"
#include "kernels/model/parameters.hpp"
#include "kernels/model/required_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

namespace {

using namespace troupe::model;

void expect(bool holds, const char* what) {
  if (holds)
    return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

/// Names the file, and ends; every message does.
template <class Parse>
void parse_or_refuse(Parse parse) {
  try {
    parse();
  } catch (const model_error& e) {
    expect(std::string{e.what()}.find("fuzz.json") != std::string::npos, "every message names the file");
  }
}

/// The place lies within its tensor.
void check_place(const tensor_place& place, const std::vector<std::size_t>& shape) {
  std::size_t whole = 1;
  for (const auto dim : place.shape)
    whole *= dim;
  const auto rows = shape.size() < 2 ? 1 : shape.front();
  const auto columns = shape.back();
  const auto row_step = place.row_step == 0 ? columns : place.row_step;
  const auto column_step = place.column_step == 0 ? 1 : place.column_step;
  expect(place.first + (rows - 1) * row_step + (columns - 1) * column_step < whole,
         "a part lies in its tensor");
}

void check_tensor(const tensor_requirement& tensor) {
  expect(!tensor.name.empty() && !tensor.shape.empty(), "a tensor has name and shape");
  expect(tensor.num_values() > 0, "a tensor has values");
  expect(!tensor.is_part || !tensor.also.empty(), "a part lies somewhere");
  for (const auto& place : tensor.also)
    check_place(place, tensor.shape);
}

void check_mlp(const mlp_ref& mlp, std::size_t hidden) {
  const std::vector<std::size_t> wide{mlp.intermediate(), hidden};
  expect(mlp.gate.shape == wide && (!mlp.up || mlp.up->shape == wide), "gate and up meet a row");
  expect(mlp.down.shape == std::vector<std::size_t>{hidden, mlp.intermediate()}, "down makes a row");
  expect(mlp.biases.empty() || mlp.biases.size() == mlp.num_matrices(), "all biases or none");
  check_tensor(mlp.gate);
  if (mlp.up)
    check_tensor(*mlp.up);
  check_tensor(mlp.down);
  for (const auto& bias : mlp.biases)
    check_tensor(bias);
}

/// Goes through a layer's operations with the widths of the rows that they leave.
class layer_check {
 public:
  explicit layer_check(std::size_t hidden) : hidden_(hidden) { width(rows_of::residual) = hidden; }

  void operator()(const norm_op& op) {
    expect(op.epsilon > 0 && op.epsilon < 1, "a norm divides by more than nothing");
    expect(op.width() == width(op.from), "a norm's weight is as wide as its rows");
    expect(!op.bias || op.bias->shape == op.weight.shape, "a norm's bias is as wide as its weight");
    width(op.to) = op.width();
  }

  void operator()(const project_op& op) {
    expect(!op.matrix.parts.empty(), "a projection has a matrix");
    for (const auto& part : op.matrix.parts)
      expect(part.shape.size() == 2 && part.shape.back() == width(op.from), "a projection meets its rows");
    expect(op.matrix.biases.empty() || op.matrix.biases.size() == op.matrix.parts.size(),
           "a bias for each part");
    expect(!op.adds() || op.matrix.outputs() == width(op.to), "what is added is as wide as what is there");
    width(op.to) = op.matrix.outputs();
  }

  void operator()(const attend_op& op) {
    expect(op.num_kv_heads > 0 && op.num_heads % op.num_kv_heads == 0, "query heads share KV heads evenly");
    expect(op.head_dim > 0 && op.head_dim % 8 == 0 && op.head_dim <= 256, "the KV cache takes a head");
    expect(width(rows_of::projected) == op.query_width() + 2 * op.kv_width(), "queries, keys and values");
    if (op.norm && op.norm->query)
      expect(op.norm->query->shape.front() == (op.norm->per_head ? op.head_dim : op.query_width()),
             "a query norm");
    if (op.norm && op.norm->key)
      expect(op.norm->key->shape.front() == (op.norm->per_head ? op.head_dim : op.kv_width()), "a key norm");
    expect(op.scale > 0 && std::isfinite(op.scale), "scores are finite");
    expect(!op.temperature || (std::isfinite(op.temperature->scale) && op.temperature->floor > 0),
           "a temperature");
    expect(!op.sinks || op.sinks->num_values() == op.num_heads, "a sink for each head");
    width(rows_of::attended) = op.query_width();
  }

  void operator()(const attend_latent_op& op) {
    expect(width(rows_of::projected) == op.num_heads * op.head_dim(), "queries of all heads");
    expect(width(rows_of::key_latent) == op.key_width(), "a latent and a rotated key");
    expect(op.latent_dim % 8 == 0 && op.latent_dim <= 512 && op.key_width() % 8 == 0 && op.key_width() <= 640,
           "the KV cache takes a latent");
    expect(op.scale > 0 && std::isfinite(op.scale), "scores are finite");
    expect(op.rope_dim % 2 == 0, "pairs rotate");
    expect(op.key_heads.size() == op.num_heads && op.value_heads.size() == op.num_heads,
           "matrices of each head");
    for (const auto& head : op.key_heads)
      expect(head.outputs() == op.latent_dim && head.inputs() == op.nope_dim, "from a query to the latent");
    for (const auto& head : op.value_heads)
      expect(head.outputs() == op.value_dim && head.inputs() == op.latent_dim, "from the latent to a value");
    width(rows_of::attended) = op.num_heads * op.value_dim;
  }

  void operator()(const route_op& op) {
    const auto& experts = op.experts;
    expect(experts.num_topk > 0 && experts.num_topk <= std::min<std::size_t>(experts.num_experts, 64),
           "as many experts as there are");
    expect(op.matrix.outputs() == experts.num_experts && op.matrix.inputs() == hidden_,
           "a router meets its rows");
    expect(!op.choice_bias || op.choice_bias->num_values() == experts.num_experts, "a bias for each expert");
    expect(op.groups.fit(experts.num_experts, experts.num_topk), "groups suit the experts");
    expect(op.scale > 0 && std::isfinite(op.scale) && op.sum_offset >= 0 && op.least_sum >= 0,
           "weights are positive");
    for (const auto index : {std::size_t{0}, experts.num_experts - 1})
      check_mlp(experts.expert(index), hidden_);
    ++routes_;
  }

  void operator()(const combine_op&) {
    expect(routes_ == 1, "answers are combined after they are asked for");
    ++combines_;
  }

  void operator()(const feed_forward_op& op) {
    check_mlp(op.mlp, hidden_);
    width(rows_of::mlp_output) = hidden_;
  }

  void operator()(const add_op& op) {
    expect(width(rows_of::mlp_output) == hidden_, "an MLP's output is added");
    expect(!op.gate || op.gate->num_values() == hidden_, "a gate meets a row");
  }

  void finish() const { expect(routes_ == combines_, "a routed layer combines once"); }

 private:
  std::size_t& width(rows_of kind) { return widths_[static_cast<std::size_t>(kind)]; }

  std::size_t hidden_;
  std::size_t widths_[8] = {}; // 0: nothing is there
  int routes_ = 0;
  int combines_ = 0;
};

void check(const model_config& config) {
  expect(config.num_layers() > 0 && config.max_context > 0, "there are layers and tokens");
  expect(config.embeddings.shape == std::vector<std::size_t>{config.vocab_size, config.hidden}, "embeddings");
  expect(config.output_head().outputs() == config.vocab_size, "a logit for each token");
  expect(config.final_norm.width() == config.hidden, "a final norm");
  if (config.rope.rotary_dim > 0)
    for (const auto frequency : troupe::kernels::rope_inverse_frequencies(config.rope))
      expect(std::isfinite(frequency) && frequency >= 0, "an angle of each pair");
  for (const auto& layer : config.layers) {
    layer_check in_order(config.hidden);
    for (const auto& op : layer.operations)
      std::visit(in_order, op);
    in_order.finish();
    expect((layer.find<attend_op>() == nullptr) != (layer.find<attend_latent_op>() == nullptr),
           "a layer attends once");
  }
  if (config.num_layers() >= 64)
    return; // layers are alike
  std::set<std::string> names;
  for (const auto& tensor : dense_tensors(config)) {
    check_tensor(tensor);
    expect(names.insert(tensor.name).second, "a tensor has a name of its own");
  }
  const auto counts = count_parameters(config);
  expect(counts.active <= counts.all, "active parameters are among all");
}

} // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

/// Mostly changes fields of well-formed JSON: bytes alone seldom stay a configuration.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  auto json = nlohmann::json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.empty() || below(8) == 0)
    return LLVMFuzzerMutate(data, size, max_size);
  static const nlohmann::json values[] = {nullptr,
                                          true,
                                          false,
                                          0,
                                          1,
                                          2,
                                          3,
                                          4,
                                          7,
                                          8,
                                          16,
                                          24,
                                          64,
                                          65,
                                          255,
                                          256,
                                          257,
                                          640,
                                          4096,
                                          16384,
                                          65536,
                                          16777216,
                                          -1,
                                          0.5,
                                          1.5,
                                          1e-300,
                                          1e308,
                                          -1e9,
                                          2147483647,
                                          9223372036854775807,
                                          nlohmann::json::array(),
                                          nlohmann::json::object(),
                                          "noaux_tc",
                                          "greedy",
                                          "group_limited_greedy",
                                          "softmax",
                                          "sigmoid",
                                          "yarn",
                                          "llama3",
                                          "longrope",
                                          "sliding_attention",
                                          {1},
                                          {0, 1, 1},
                                          {"sparse", "dense", "sparse"}};
  for (auto left = 1 + below(3); left != 0; --left) {
    auto* fields = &json;
    for (auto next = fields; next->is_object() && !next->empty();) {
      fields = next;
      auto field = next->begin();
      std::advance(field, below(next->size()));
      next = &*field;
      if (below(3) == 0)
        break;
    }
    auto field = fields->begin();
    std::advance(field, below(fields->size()));
    if (field->is_number_integer() && below(2) == 0)
      *field = std::clamp<std::int64_t>(field->get<std::int64_t>(), -1'000'000'000, 1'000'000'000) * 2
               + static_cast<std::int64_t>(below(9)) - 4;
    else if (below(8) == 0 && fields->size() > 1)
      fields->erase(field);
    else
      *field = values[below(std::size(values))];
  }
  const auto text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > max_size)
    return LLVMFuzzerMutate(data, size, max_size);
  std::ranges::copy(text, data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  parse_or_refuse([&] { check(parse_config(text, "fuzz.json")); });
  parse_or_refuse([&] { parse_generation_config(text, "fuzz.json", 1000); });
  return 0;
}
