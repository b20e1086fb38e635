#include "kernels/plan_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <utility>
#include <vector>

#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

constexpr const char* first_line = "troupe kernel plan 1";

template <class Part>
struct field {
  const char* name;
  std::size_t Part::*value;
};

constexpr std::array<field<product_regime>, 12> regime_fields{{
    {"rows", &product_regime::most_rows},
    {"inputs", &product_regime::most_inputs},
    {"tile_rows", &product_regime::tile_rows},
    {"tile_row_bytes", &product_regime::tile_row_bytes},
    {"tile_panels", &product_regime::tile_panels},
    {"tile_bytes", &product_regime::tile_bytes},
    {"tile_sums", &product_regime::tile_sums},
    {"tiles_per_thread", &product_regime::tiles_per_thread},
    {"part_rows", &product_regime::part_rows},
    {"part_panels", &product_regime::part_panels},
    {"part_bytes", &product_regime::part_bytes},
    {"turn_inputs", &product_regime::turn_inputs},
}};
constexpr field<product_regime> ahead_field{"bytes_ahead", &product_regime::bytes_ahead};

constexpr std::array<field<attention_plan>, 6> attention_fields{{
    {"row_kernel_rows", &attention_plan::row_kernel_rows},
    {"block_rows", &attention_plan::block_rows},
    {"most_block_rows", &attention_plan::most_block_rows},
    {"blocks_per_thread", &attention_plan::blocks_per_thread},
    {"least_work", &attention_plan::least_work},
    {"work_of_head", &attention_plan::work_of_head},
}};

constexpr std::array<field<kernel_plan>, 2> number_fields{{
    {"least_elements", &kernel_plan::least_elements},
    {"least_packed_rows", &kernel_plan::least_packed_rows},
}};

struct switch_field {
  const char* name;
  bool kernel_plan::*value;
};

constexpr std::array<switch_field, 2> switch_fields{{
    {"coded_weights", &kernel_plan::coded_weights},
    {"copied_weights", &kernel_plan::copied_weights},
}};

std::string number_text(std::size_t number) {
  return number == any_number ? "any" : std::to_string(number);
}

/// One line, read word by word.
class plan_line {
 public:
  plan_line(std::string_view text, std::size_t number) : number_(number) {
    text = text.substr(0, text.find('#'));
    std::istringstream stream{std::string{text}};
    for (std::string word; stream >> word;)
      words_.push_back(word);
  }

  bool empty() const { return words_.empty(); }

  std::size_t size() const { return words_.size(); }

  const std::string& word(std::size_t i) const {
    if (i >= words_.size())
      fail("is cut short");
    return words_[i];
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw kernel_error("line " + std::to_string(number_) + " " + what);
  }

  isa set_of(const std::string& name) const {
    const auto set = isa_from_name(name);
    if (!set)
      fail("names the instruction set '" + name + "', which is unknown");
    if (!is_supported(*set))
      fail("names the instruction set " + name + ", which this machine does not have");
    return *set;
  }

  std::size_t number_of(const std::string& text) const {
    if (text == "any")
      return any_number;
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      fail("has '" + text + "' where a number is expected");
    return value;
  }

  /// Calls `read(key, value)` for the words KEY=VALUE from word `first` on.
  template <class Read>
  void each_value(std::size_t first, const Read& read) const {
    for (std::size_t i = first; i < words_.size(); ++i) {
      const auto at = words_[i].find('=');
      if (at == std::string::npos)
        fail("has '" + words_[i] + "' where KEY=VALUE is expected");
      read(words_[i].substr(0, at), words_[i].substr(at + 1));
    }
  }

 private:
  std::vector<std::string> words_;
  std::size_t number_;
};

/// The value of a word in a product's line, or empty.
std::string value_of(const plan_line& line, const std::string& wanted) {
  std::string found;
  line.each_value(2, [&](const std::string& key, const std::string& value) {
    if (key == wanted)
      found = value;
  });
  if (found.empty())
    line.fail("has no " + wanted + "=…");
  return found;
}

product_regime regime_of(const plan_line& line, product_kind kind) {
  const isa set = line.set_of(value_of(line, "set"));
  const std::string name = value_of(line, "kernel");
  const auto kernel = product_kernel_from_name(name);
  if (!kernel)
    line.fail("names the kernel '" + name + "', which is unknown");
  product_regime regime =
      default_regime(table_of(set), *kernel, kind, line.number_of(value_of(line, "rows")));
  line.each_value(2, [&](const std::string& key, const std::string& value) {
    if (key == "set" || key == "kernel")
      return;
    if (key == ahead_field.name) {
      regime.bytes_ahead = line.number_of(value);
      return;
    }
    for (const auto& f : regime_fields)
      if (key == f.name) {
        regime.*f.value = line.number_of(value);
        return;
      }
    line.fail("has the key '" + key + "', which a product does not have");
  });
  return regime;
}

void read_attention(const plan_line& line, attention_plan& plan) {
  line.each_value(1, [&](const std::string& key, const std::string& value) {
    if (key == "set") {
      plan.set = line.set_of(value);
      return;
    }
    for (const auto& f : attention_fields)
      if (key == f.name) {
        plan.*f.value = line.number_of(value);
        return;
      }
    line.fail("has the key '" + key + "', which attention does not have");
  });
}

bool read_field(const plan_line& line, kernel_plan& plan) {
  const std::string& key = line.word(0);
  for (const auto& f : number_fields)
    if (key == f.name) {
      plan.*f.value = line.number_of(line.word(1));
      return true;
    }
  for (const auto& f : switch_fields)
    if (key == f.name) {
      if (line.word(1) != "yes" && line.word(1) != "no")
        line.fail("is neither yes nor no");
      plan.*f.value = line.word(1) == "yes";
      return true;
    }
  return false;
}

} // namespace

std::string text_of(const kernel_plan& plan) {
  std::ostringstream out;
  out << first_line << "\nset " << name_of(plan.set) << '\n';
  for (const auto& f : switch_fields)
    out << f.name << (plan.*f.value ? " yes\n" : " no\n");
  for (const auto& f : number_fields)
    out << f.name << ' ' << plan.*f.value << '\n';
  out << "attention set=" << name_of(plan.attention.set);
  for (const auto& f : attention_fields)
    out << ' ' << f.name << '=' << plan.attention.*f.value;
  out << '\n';
  for (std::size_t kind = 0; kind < num_product_kinds; ++kind)
    for (const product_regime& regime : plan.products.at(kind)) {
      out << "product " << name_of(static_cast<product_kind>(kind))
          << " rows=" << number_text(regime.most_rows) << " set=" << name_of(regime.set)
          << " kernel=" << name_of(regime.kernel);
      for (const auto& f : regime_fields)
        if (f.value != &product_regime::most_rows)
          out << ' ' << f.name << '=' << number_text(regime.*f.value);
      out << ' ' << ahead_field.name << '=' << regime.bytes_ahead << '\n';
    }
  out << "end\n";
  return out.str();
}

std::string text_of(const product_regime& regime, product_kind kind) {
  const product_regime standard = default_regime(table_of(regime.set), regime.kernel, kind, regime.most_rows);
  std::string text = std::string(name_of(regime.set)) + " " + name_of(regime.kernel);
  for (const auto& f : regime_fields)
    if (f.value != &product_regime::most_rows && regime.*f.value != standard.*f.value)
      text += std::string(" ") + f.name + "=" + number_text(regime.*f.value);
  if (regime.bytes_ahead != standard.bytes_ahead)
    text += " bytes_ahead=" + std::to_string(regime.bytes_ahead);
  return text;
}

kernel_plan plan_from_text(std::string_view text) {
  kernel_plan plan;
  std::array<bool, num_product_kinds> is_there{};
  std::size_t number = 0;
  bool has_set = false;
  bool has_end = false;
  while (!text.empty() && !has_end) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const plan_line line(text.substr(0, end), ++number);
    if (number == 1 && text.substr(0, end) != first_line)
      line.fail(std::string("is not '") + first_line + "'");
    text.remove_prefix(std::min(end + 1, text.size()));
    if (number == 1 || line.empty())
      continue;
    const std::string& what = line.word(0);
    if (what == "set") {
      plan = default_plan(line.set_of(line.word(1)));
      has_set = true;
    } else if (!has_set) {
      line.fail("comes before 'set'");
    } else if (what == "attention") {
      read_attention(line, plan.attention);
    } else if (what == "product") {
      const auto kind = product_kind_from_name(line.word(1));
      if (!kind)
        line.fail("has the weights '" + line.word(1) + "', which are unknown");
      if (!std::exchange(is_there.at(static_cast<std::size_t>(*kind)), true))
        plan.of(*kind).clear();
      plan.of(*kind).push_back(regime_of(line, *kind));
    } else if (what == "end") {
      has_end = true;
    } else if (!read_field(line, plan)) {
      line.fail("begins with '" + what + "', which is unknown");
    }
  }
  if (!has_end)
    throw kernel_error("the last line is not 'end': the plan is cut short");
  std::array<const kernel_table*, num_isas> tables{};
  for (const isa set : plan.sets())
    tables.at(static_cast<std::size_t>(set)) = &table_of(set);
  if (const auto problem = problem_of(plan, tables))
    throw kernel_error(*problem);
  return plan;
}

} // namespace troupe::kernels
