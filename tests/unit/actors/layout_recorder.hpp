// The wire layout of a message as text that distinguishes extensible structures from others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/meta/annotation.hpp>

#include "actors/protocol/admission_layout.hpp"
#include "actors/protocol/cluster_layout.hpp"
#include "actors/protocol/encoded_once_layout.hpp"
#include "actors/protocol/expert_layout.hpp"
#include "actors/protocol/generation_layout.hpp"
#include "actors/protocol/history_layout.hpp"
#include "actors/protocol/ids_layout.hpp"
#include "actors/protocol/rebalancer_layout.hpp"
#include "actors/protocol/request_context_layout.hpp"
#include "actors/protocol/role_layout.hpp"
#include "actors/protocol/status_layout.hpp"
#include "actors/protocol/trace_layout.hpp"
#include "actors/protocol/view_layout.hpp"
#include "actors/protocol/weights_layout.hpp"

namespace troupe {

/// An inspector that writes each field in hexadecimal digits, and the fields of an extensible structure in
/// parentheses, which stand for its length.
class layout_recorder {
 public:
  using result_type = void;
  static constexpr bool reads_state = true;
  static constexpr bool writes_state = false;

  explicit layout_recorder(caf::actor_system& system) : system_(system) {}

  const std::string& text() const { return text_; }

  void begin_extensible(const char*) { text_ += '('; }

  void end_extensible() { text_ += ')'; }

  template <class... Fields>
  void operator()(Fields&&... fields) {
    (put(fields), ...);
  }

 private:
  template <class T>
  void put(T& field) {
    using plain = std::remove_cv_t<T>;
    if constexpr (std::is_base_of_v<caf::meta::annotation, plain>) {
      // It only names the structure.
    } else if constexpr (requires(layout_recorder & f, plain & x) { lay_out(f, x); }) {
      lay_out(*this, const_cast<plain&>(field));
    } else if constexpr (requires(layout_recorder & f, plain & x) { inspect(f, x); }) {
      inspect(*this, const_cast<plain&>(field));
    } else {
      put_bytes([&](auto& sink) { return sink(const_cast<plain&>(field)); });
    }
  }

  template <class T>
  void put(std::vector<T>& fields) {
    auto size = fields.size();
    put_bytes([&](auto& sink) { return sink.begin_sequence(size); });
    for (auto& field : fields)
      put(field);
  }

  template <class T>
  void put(encoded_once<T>& field) {
    put(const_cast<T&>(*field));
  }

  template <class Write>
  void put_bytes(Write write) {
    static constexpr auto digits = "0123456789abcdef";
    std::vector<char> bytes;
    caf::binary_serializer sink{system_, bytes};
    if (write(sink))
      throw std::runtime_error("a field cannot be written");
    for (const auto byte : bytes) {
      const auto value = static_cast<unsigned char>(byte);
      text_ += digits[value >> 4U];
      text_ += digits[value & 15U];
    }
  }

  caf::actor_system& system_;
  std::string text_;
};

template <class T>
std::string layout_of(caf::actor_system& system, T& value) {
  layout_recorder recorder{system};
  recorder(value);
  return recorder.text();
}

/// The bytes that a layout stands for.
/// @throws std::runtime_error  the parentheses do not match
inline std::vector<char> bytes_of(std::string_view layout) {
  std::vector<std::vector<char>> open(1);
  const auto digit = [](char letter) { return letter <= '9' ? letter - '0' : letter - 'a' + 10; };
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] == '(') {
      open.emplace_back();
    } else if (layout[i] == ')') {
      if (open.size() < 2)
        throw std::runtime_error("a parenthesis too many");
      const auto inner = open.back();
      open.pop_back();
      for (int shift = 24; shift >= 0; shift -= 8)
        open.back().push_back(static_cast<char>(inner.size() >> static_cast<unsigned>(shift)));
      open.back().insert(open.back().end(), inner.begin(), inner.end());
    } else {
      open.back().push_back(static_cast<char>(digit(layout[i]) * 16 + digit(layout[i + 1])));
      ++i;
    }
  }
  if (open.size() != 1)
    throw std::runtime_error("a parenthesis is missing");
  return open.front();
}

/// True when `newer` is `older` with more at the ends of extensible structures only.
inline bool extends(std::string_view older, std::string_view newer) {
  std::size_t at = 0;
  for (const char letter : older) {
    if (letter == ')')
      for (int depth = 0; at < newer.size() && (depth > 0 || newer[at] != ')'); ++at)
        depth += newer[at] == '(' ? 1 : newer[at] == ')' ? -1 : 0;
    if (at == newer.size() || newer[at] != letter)
      return false;
    ++at;
  }
  return at == newer.size();
}

} // namespace troupe
