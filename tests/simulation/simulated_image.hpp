// Experts that simulated engines exchange: bytes that depend on the expert.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine/engine.hpp"

namespace troupe {

/// Bytes that depend on the expert.
class simulated_image : public expert_image {
 public:
  simulated_image(expert_id expert, std::uint64_t num_bytes) {
    bytes_.resize(num_bytes);
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      bytes_[i] = static_cast<std::byte>(expert.layer * 31 + expert.index * 7 + i * i);
  }

  const std::string& layout() const override { return layout_; }

  std::uint64_t num_bytes() const override { return bytes_.size(); }

  std::uint64_t checksum() const override { return sum_of(bytes_); }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }

  static std::uint64_t sum_of(const std::vector<std::byte>& bytes) {
    std::uint64_t sum = 0;
    for (const auto byte : bytes)
      sum = sum * 0x100000001b3 + std::to_integer<std::uint64_t>(byte);
    return sum;
  }

 private:
  std::string layout_ = "simulated";
  std::vector<std::byte> bytes_;
};

class simulated_sink : public expert_sink {
 public:
  explicit simulated_sink(simulated_image wanted) : wanted_(std::move(wanted)) {}

  std::string begin(const std::string& layout, std::uint64_t num_bytes) override {
    bytes_.assign(num_bytes, std::byte{0});
    return layout == wanted_.layout() && num_bytes == wanted_.num_bytes() ? ""
                                                                          : "laid out as '" + layout + "'";
  }

  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  std::uint64_t checksum() const override { return simulated_image::sum_of(bytes_); }

  bool is_whole() const { return bytes_ == wanted_.bytes(); }

 private:
  simulated_image wanted_;
  std::vector<std::byte> bytes_;
};

} // namespace troupe
