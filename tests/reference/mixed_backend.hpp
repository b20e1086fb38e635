// A model with its attention side on one backend and its experts on another, as in clusters with both kinds
// of devices.
#pragma once

#include "kernels/model/compute_backend.hpp"

#include <memory>
#include <utility>

namespace troupe::test {

class mixed_backend final : public model::compute_backend {
 public:
  mixed_backend(std::unique_ptr<model::compute_backend> attention,
                std::unique_ptr<model::compute_backend> experts)
      : attention_(std::move(attention)), experts_(std::move(experts)) {}

  std::unique_ptr<model::attention_backend> load_attention(const model::load_options& options,
                                                           const model::load_progress& progress) override {
    return attention_->load_attention(options, progress);
  }

  std::unique_ptr<model::expert_backend> make_experts() override { return experts_->make_experts(); }

 private:
  std::unique_ptr<model::compute_backend> attention_;
  std::unique_ptr<model::compute_backend> experts_;
};

} // namespace troupe::test
