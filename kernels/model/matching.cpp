// Finds the tensors that a program requires in a checkpoint.
#include "kernels/model/checkpoint.hpp"
#include "kernels/model/required_tensors.hpp"

#include <algorithm>
#include <unordered_set>

namespace troupe::model {

namespace {

std::string shape_text(std::span<const std::size_t> shape) {
  std::string result;
  for (const auto dim : shape)
    result += (result.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + result + "]";
}

/// Redundant tensors of some writers, which are not logged.
bool is_redundant(const std::string& name, const model_config& config) {
  const auto begins_so = [&](const std::string& prefix) { return name.starts_with(prefix); };
  return name.ends_with(".rotary_emb.inv_freq") || (config.tie_word_embeddings && name == config.lm_head.name)
         || std::ranges::any_of(config.ignored_tensors, begins_so);
}

/// The part of `whole` that `place` names, as `required`.
tensor_ref part_of(const tensor_ref& whole, const tensor_place& place, std::span<const std::size_t> shape) {
  const auto bytes = element_bytes(whole.type);
  const auto rows = shape.size() < 2 ? 1 : shape.front();
  const auto columns = shape.back();
  const auto row_step = place.row_step == 0 ? columns : place.row_step;
  const auto column_step = place.column_step == 0 ? 1 : place.column_step;
  tensor_ref result{.type = whole.type,
                    .shape = shape,
                    .data = whole.data + place.first * bytes,
                    .num_bytes = ((rows - 1) * row_step + (columns - 1) * column_step + 1) * bytes};
  if (row_step != columns || column_step != 1) {
    result.row_step = row_step;
    result.column_step = column_step;
  }
  return result;
}

} // namespace

/// One `match`: collects the problems and the needed tensors.
class checkpoint::matching {
 public:
  matching(checkpoint& weights, const model_config& config) : weights_(weights), config_(config) {}

  void run() {
    for (const auto& required : dense_tensors(config_))
      take(required);
    for (std::size_t i = 0; i < config_.num_layers(); ++i)
      for (const auto& required : expert_layer_tensors(config_, i))
        take(required);
    for (const auto& required : missing_)
      tell_missing(required);
    throw_problems();
    find_unused();
  }

 private:
  static constexpr std::size_t shown = 5; // most problems that a message lists

  /// Many parts of one tensor have one problem.
  void problem(const std::string& what) {
    if (!told_.insert(what).second)
      return;
    if (num_problems_++ < shown)
      problems_ += "\n  " + what;
  }

  /// Finds the tensor, or a place that holds it.
  void take(const tensor_requirement& required) {
    if (weights_.find(required.name) != nullptr) {
      check(required.name, required.shape);
      return;
    }
    for (const auto& place : required.also)
      if (weights_.find(place.name) != nullptr) {
        used_blocks_.insert(block_of(place.name));
        if (const auto* whole = check(place.name, place.shape))
          add_part(required, *whole, place);
        return;
      }
    missing_.push_back(required);
  }

  static std::string block_of(const std::string& name) { return name.substr(0, name.rfind('.') + 1); }

  /// Names the place, if the tensors beside it are taken from there.
  void tell_missing(const tensor_requirement& required) {
    for (const auto& place : required.also)
      if (required.is_part || used_blocks_.contains(block_of(place.name))) {
        tell_missing({place.name, place.shape});
        return;
      }
    const auto listed = weights_.listed_only_.find(required.name);
    problem(
        "tensor '" + required.name + "' is missing, expected shape " + shape_text(required.shape)
        + (listed == weights_.listed_only_.end() ? "" : " (the index says it is in " + listed->second + ")"));
  }

  /// @returns the tensor, or null if it is unusable
  const tensor_ref* check(const std::string& name, std::span<const std::size_t> shape) {
    needed_.insert(name);
    const auto* found = weights_.find(name);
    if (!std::ranges::equal(found->shape, shape)) {
      problem("tensor '" + name + "' has shape " + shape_text(found->shape) + ", expected "
              + shape_text(shape));
      return nullptr;
    }
    if (found->type == storage_dtype::other) {
      problem("tensor '" + name + "' has type " + type_name(name) + ", supported are F32, F16 and BF16");
      return nullptr;
    }
    return found;
  }

  std::string type_name(const std::string& name) const {
    for (const auto& s : weights_.shards_)
      for (const auto& entry : s->entries)
        if (entry.name == name)
          return entry.type_name;
    return "?";
  }

  void add_part(const tensor_requirement& required, const tensor_ref& whole, const tensor_place& place) {
    auto& shapes = weights_.alias_shapes_;
    if (shapes.empty() || shapes.back() != required.shape)
      shapes.push_back(required.shape);
    weights_.aliases_.emplace(required.name, part_of(whole, place, shapes.back()));
  }

  void throw_problems() const {
    if (num_problems_ == 0)
      return;
    throw model_error(
        weights_.folder_.string() + ": " + std::to_string(num_problems_)
        + (num_problems_ == 1 ? " problem" : " problems") + " with the weights:" + problems_
        + (num_problems_ > shown ? "\n  and " + std::to_string(num_problems_ - shown) + " more" : ""));
  }

  void find_unused() {
    const auto is_unused = [&](const std::string& name) {
      return !needed_.contains(name) && !is_redundant(name, config_);
    };
    for (const auto& s : weights_.shards_)
      for (const auto& entry : s->entries)
        if (is_unused(entry.name))
          weights_.unused_.push_back(entry.name);
    for (const auto& [name, file] : weights_.listed_only_)
      if (is_unused(name))
        weights_.unused_.push_back(name + " (listed, and not in " + file + ")");
  }

  checkpoint& weights_;
  const model_config& config_;
  std::unordered_set<std::string> needed_;
  std::unordered_set<std::string> used_blocks_; // what the names of used places begin with
  std::vector<tensor_requirement> missing_;
  std::unordered_set<std::string> told_;
  std::size_t num_problems_ = 0;
  std::string problems_;
};

void checkpoint::match(const model_config& config) {
  aliases_.clear();
  alias_shapes_.clear();
  unused_.clear();
  matching(*this, config).run();
}

} // namespace troupe::model
