#include "services/troupe/model_table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <vector>

#include "services/client/terminal_text.hpp"
#include "services/client/text_table.hpp"

namespace troupe {

namespace {

/// Three digits and a unit: "671 B", "70.3 KiB".
std::string scaled(double value, double step, const std::vector<const char*>& units) {
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < units.size(); ++unit)
    value /= step;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(),
                value < 9.995 && unit > 0   ? "%.2f %s"
                : value < 99.95 && unit > 0 ? "%.1f %s"
                                            : "%.0f %s",
                value, units[unit]);
  return text.data();
}

std::string bytes_text(std::uint64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string count_text(std::uint64_t count) {
  auto text = scaled(static_cast<double>(count), 1000, {"", "K", "M", "B", "T"});
  if (text.ends_with(' '))
    text.pop_back();
  return text;
}

std::string number(std::uint64_t value) {
  return std::to_string(value);
}

/// "in 3 layers: ", unless it is all of them.
std::string in_layers(std::uint64_t layers, std::uint64_t all) {
  return layers == all ? "" : "in " + counted(layers, "layer") + ": ";
}

std::string attention_text(const pages::attention_part& attention) {
  auto text = attention.kind + ", " + counted(attention.heads, "head");
  if (attention.latent_dim)
    text += " of " + number(attention.head_dim) + " (values " + number(attention.value_dim.value_or(0))
            + "), a latent of " + number(*attention.latent_dim);
  else
    text += " of " + number(attention.head_dim) + ", " + counted(attention.kv_heads, "KV head");
  if (attention.window)
    text += ", window of " + number(*attention.window);
  if (attention.chunk)
    text += ", chunks of " + number(*attention.chunk);
  if (attention.sinks)
    text += ", sinks";
  if (!attention.positions)
    text += ", no positions";
  return text;
}

std::string experts_text(const pages::experts_part& experts) {
  auto text = number(experts.experts) + " of " + number(experts.intermediate) + ", "
              + number(experts.per_token) + " per token";
  if (experts.shared_intermediate != 0)
    text += ", " + number(experts.shared_intermediate) + " shared";
  return text;
}

/// The names with commas, the first of them if there are many.
std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > shown ? text + " and " + number(names.size() - shown) + " more" : text;
}

class table {
 public:
  void add(const std::string& what, const std::string& text) { rows_.push_back({what, text}); }

  /// One line for each part, of which the first is named.
  template <class Part>
  void add_each(const std::string& what, const std::vector<Part>& parts, std::uint64_t layers,
                std::string (*text_of)(const Part&)) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      add(i == 0 ? what : "", in_layers(parts[i].layers, layers) + text_of(parts[i]));
  }

  std::string text() const { return table_text({column_kind::text, column_kind::text}, rows_); }

 private:
  std::vector<std::vector<std::string>> rows_;
};

void add_program(const pages::program_part& program, table& out) {
  out.add("architecture", program.architecture);
  out.add("layers", number(program.layers) + ": " + number(program.dense_layers) + " dense, "
                        + number(program.layers - program.dense_layers) + " routed");
  out.add("hidden", number(program.hidden));
  out.add_each("attention", program.attention, program.layers, attention_text);
  out.add_each("experts", program.experts, program.layers, experts_text);
  out.add("context", counted(program.context, "token"));
  out.add("vocabulary",
          counted(program.vocabulary, "token") + (program.tied_embeddings ? ", output tied to it" : ""));
  out.add("parameters",
          count_text(program.parameters) + ", " + count_text(program.active_parameters) + " per token");
  out.add("weights", bytes_text(program.bfloat16_bytes) + " in bfloat16");
}

/// KV bytes of a token, and how many of them count only up to a window or chunk.
std::string kv_text(const pages::model_page& page) {
  auto text = counted(page.needs->kv_bytes_per_token, "byte") + " per token";
  for (const auto& attention : page.program->attention)
    if (attention.window || attention.chunk)
      text += ", " + number(attention.kv_bytes_per_token) + " of them in layers with "
              + (attention.window ? "a window of " + number(*attention.window)
                                  : "chunks of " + number(*attention.chunk));
  return text;
}

void add_needs(const pages::model_page& page, table& out) {
  const auto& needs = *page.needs;
  out.add("loaded", "attention side " + bytes_text(needs.attention_weights) + ", experts "
                        + bytes_text(needs.expert_weights) + " (" + needs.numerics_class + ")");
  out.add("KV cache", kv_text(page));
  out.add("memory", "one machine: " + bytes_text(needs.one_machine) + ", with a KV cache of "
                        + bytes_text(needs.kv_cache));
  out.add("", "attention worker: " + bytes_text(needs.attention_worker) + "; each of "
                  + counted(needs.expert_workers, "expert worker") + ": " + bytes_text(needs.expert_worker)
                  + (needs.expert_worker_of_fewer
                         ? ", " + bytes_text(*needs.expert_worker_of_fewer) + " so that one may be lost"
                         : ""));
}

} // namespace

std::string model_table(const pages::model_page& page) {
  table out;
  if (page.program)
    add_program(*page.program, out);
  if (page.program && page.needs)
    add_needs(page, out);
  std::string ends;
  for (const auto id : page.end_tokens)
    ends += (ends.empty() ? "" : ", ") + std::to_string(id);
  if (page.program)
    out.add("end tokens", ends.empty() ? "none" : ends);
  out.add("tokenizer", page.tokenizer.value_or("none read"));
  out.add("files", page.weights == "none" ? "no weights" : page.weights);
  if (!page.ignored.empty())
    out.add("ignored", names_text(page.ignored));
  if (!page.unused_tensors.empty())
    out.add("unused tensors", names_text(page.unused_tensors));
  out.add("loads", page.error   ? "no"
                   : page.loads ? "yes"
                                : "the configuration does; the weights are not here");
  return out.text();
}

} // namespace troupe
