// A history has megabytes of numbers: they are written as text at once, without a tree of them, and a flaw in
// them is named with its place.
#include "services/pages/history_page.hpp"

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/pages/page_fields.hpp"

namespace troupe::pages {

namespace {

using tree = nlohmann::json;

template <class T>
concept number = std::integral<T> || std::floating_point<T>;

class writer {
 public:
  std::string take() { return std::move(text_); }

  void put(number auto value) {
    std::array<char, 32> digits;
    text_.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
  }

  void put(const std::string& value) {
    text_ += tree(value).dump(-1, ' ', false, tree::error_handler_t::replace);
  }

  template <class T>
  void put(const std::vector<T>& values) {
    text_ += '[';
    bool is_first = true;
    for (const auto& value : values) {
      if (!std::exchange(is_first, false))
        text_ += ',';
      put(value);
    }
    text_ += ']';
  }

  template <page_part T>
  void put(const T& part) {
    char before = '{';
    for_each_field(part, [&](const std::string& name, const auto& value) {
      text_ += std::exchange(before, ',');
      text_ += '"' + name + "\":";
      put(value);
    });
    text_ += '}';
  }

  void put(const std::optional<std::uint64_t>& value) { put(value.value_or(0)); }

 private:
  std::string text_;
};

/// A place in the page, as text only where it has a flaw.
struct place {
  const place* in = nullptr; ///< null: the page
  std::string_view name{};   ///< empty: the index
  std::size_t index = 0;
};

std::string text_of(const place& at) {
  const auto outer = at.in == nullptr ? std::string{} : text_of(*at.in);
  if (at.name.empty())
    return at.in == nullptr ? std::string{} : outer + '[' + std::to_string(at.index) + ']';
  return outer + (outer.empty() ? "" : ".") + std::string(at.name);
}

[[noreturn]] void fail(const place& at, const std::string& what) {
  throw std::runtime_error("'" + text_of(at) + "' " + what);
}

void check_number(std::uint64_t value, std::uint64_t bound, const place& at) {
  if (value > bound)
    fail(at, "is no whole number from 0 to " + std::to_string(bound));
}

void read(const tree& in, std::uint64_t& value, const place& at) {
  value = in.is_number_unsigned() ? in.get<std::uint64_t>() : std::numeric_limits<std::uint64_t>::max();
  check_number(value, std::numeric_limits<std::int64_t>::max(), at);
}

void read(const tree& in, std::uint32_t& value, const place& at) {
  std::uint64_t wide = 0;
  read(in, wide, at);
  check_number(wide, std::numeric_limits<std::uint32_t>::max(), at);
  value = static_cast<std::uint32_t>(wide);
}

void read(const tree& in, double& value, const place& at) {
  if (!in.is_number())
    fail(at, "is no number");
  value = in.get<double>();
}

void read(const tree& in, std::string& value, const place& at) {
  if (!in.is_string())
    fail(at, "is no text");
  value = in.get<std::string>();
}

template <page_part T>
void read(const tree& in, T& part, const place& at);

template <class T>
void read(const tree& in, std::vector<T>& values, const place& at) {
  if (!in.is_array())
    fail(at, "is no array");
  values.resize(in.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    read(in[i], values[i], {&at, {}, i});
}

template <page_part T>
void read(const tree& in, T& part, const place& at) {
  if (!in.is_object())
    fail(at, "is no object");
  for_each_field(part, [&]<class Field>(const std::string& name, Field& value) {
    const place field{&at, name};
    const auto found = in.find(name);
    if constexpr (std::same_as<Field, std::optional<std::uint64_t>>) {
      if (found != in.end())
        read(*found, value.emplace(), field);
    } else {
      if (found == in.end())
        fail(field, "is missing");
      read(*found, value, field);
    }
  });
}

constexpr std::uint64_t max_experts = std::uint64_t{1} << 20; ///< of all layers together
constexpr std::uint64_t max_count = std::uint64_t{1} << 40;
constexpr std::uint64_t max_duration_ms = std::uint64_t{1} << 32;

template <class T>
void check_size(const std::vector<T>& values, std::size_t size, const place& at) {
  if (values.size() != size)
    fail(at, "is no array of " + std::to_string(size));
}

void check_window(const window_part& window, const std::vector<std::uint32_t>& layer_experts,
                  const place& at) {
  check_number(window.duration_ms, max_duration_ms, {&at, "duration_ms"});
  check_number(window.tokens, max_count, {&at, "tokens"});
  check_number(window.micro_batches.value_or(0), max_count, {&at, "micro_batches"});
  const place layers{&at, "rows"};
  check_size(window.rows, layer_experts.size(), layers);
  for (std::size_t layer = 0; layer < layer_experts.size(); ++layer) {
    const place pairs{&layers, {}, layer};
    const auto& numbers = window.rows[layer];
    if (numbers.size() % 2 != 0)
      fail(pairs, "has an expert without its rows");
    for (std::size_t i = 0; i < numbers.size(); i += 2) {
      if (numbers[i] >= layer_experts[layer])
        fail(pairs,
             "names expert " + std::to_string(numbers[i]) + " of " + std::to_string(layer_experts[layer]));
      check_number(numbers[i + 1], max_count, pairs);
    }
  }
}

void check(const history_page& page) {
  const place top;
  if (page.format != history_page{}.format)
    fail({&top, "format"}, "is not '" + history_page{}.format + "'");
  const place layers{&top, "layer_experts"};
  std::uint64_t experts = 0;
  for (const auto count : page.layer_experts)
    if ((experts += count) > max_experts)
      fail(layers, "has more than " + std::to_string(max_experts) + " experts");
  const place decayed{&top, "decayed"};
  check_size(page.decayed, page.layer_experts.size(), decayed);
  for (std::size_t layer = 0; layer < page.decayed.size(); ++layer)
    check_size(page.decayed[layer], page.layer_experts[layer], {&decayed, {}, layer});
  const place windows{&top, "windows"};
  for (std::size_t i = 0; i < page.windows.size(); ++i)
    check_window(page.windows[i], page.layer_experts, {&windows, {}, i});
}

} // namespace

std::string encode_history(const history_page& page) {
  writer out;
  out.put(page);
  return out.take();
}

history_page decode_history(const std::string& text) {
  tree in;
  try {
    in = tree::parse(text);
  } catch (const tree::exception& error) {
    throw std::runtime_error(std::string{"it is no JSON: "} + error.what());
  }
  if (!in.is_object())
    throw std::runtime_error("it is no JSON object");
  history_page page;
  read(in, page, {});
  check(page);
  return page;
}

} // namespace troupe::pages
