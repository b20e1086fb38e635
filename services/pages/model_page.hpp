// What `troupe inspect --json` prints of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/pages/page_part.hpp"

namespace troupe::pages {

/// Layers whose attention is alike.
struct attention_part {
  std::string kind = "?"; ///< "grouped" or "latent"
  std::uint64_t layers = 0;
  std::uint64_t heads = 0;
  std::uint64_t kv_heads = 0;
  std::uint64_t head_dim = 0;
  std::optional<std::uint64_t> latent_dim{}; ///< of latent attention, and so is the next
  std::optional<std::uint64_t> value_dim{};
  std::optional<std::uint64_t> window{}; ///< tokens that a query sees; no value: all
  std::optional<std::uint64_t> chunk{};
  bool sinks = false;
  bool positions = true;                ///< whether queries and keys rotate
  std::uint64_t kv_bytes_per_token = 0; ///< of these layers together

  TROUPE_PAGE_PART(kind, layers, heads, kv_heads, head_dim, latent_dim, value_dim, window, chunk, sinks,
                   positions, kv_bytes_per_token)
};

/// Layers whose routed block is alike.
struct experts_part {
  std::uint64_t layers = 0;
  std::uint64_t experts = 0; ///< of each layer
  std::uint64_t per_token = 0;
  std::uint64_t intermediate = 0;
  std::uint64_t shared_intermediate = 0; ///< of the experts that see every token, together; 0: none

  TROUPE_PAGE_PART(layers, experts, per_token, intermediate, shared_intermediate)
};

/// What follows from config.json alone.
struct program_part {
  std::string architecture;
  std::uint64_t layers = 0;
  std::uint64_t dense_layers = 0;
  std::uint64_t hidden = 0;
  std::uint64_t vocabulary = 0;
  std::uint64_t context = 0; ///< tokens
  bool tied_embeddings = false;
  std::vector<attention_part> attention;
  std::vector<experts_part> experts;
  std::uint64_t parameters = 0;
  std::uint64_t active_parameters = 0; ///< that one token meets
  std::uint64_t bfloat16_bytes = 0;    ///< of all weights as published in BF16

  TROUPE_PAGE_PART(architecture, layers, dense_layers, hidden, vocabulary, context, tied_embeddings,
                   attention, experts, parameters, active_parameters, bfloat16_bytes)
};

/// What a cluster of CPUs needs, with the flags given.
struct needs_part {
  std::string numerics_class;
  std::uint64_t attention_weights = 0; ///< bytes, and so are all that follow
  std::uint64_t expert_weights = 0;
  std::uint64_t kv_bytes_per_token = 0;
  std::uint64_t kv_cache = 0;         ///< of an attention worker
  std::uint64_t one_machine = 0;      ///< least memory limit of `troupe serve`
  std::uint64_t attention_worker = 0; ///< least memory limit of each
  std::uint64_t expert_workers = 0;   ///< how many of them
  std::uint64_t expert_worker = 0;    ///< least memory limit of each
  std::optional<std::uint64_t>
      expert_worker_of_fewer; ///< so that one may be lost; no value: there is one only

  TROUPE_PAGE_PART(numerics_class, attention_weights, expert_weights, kv_bytes_per_token, kv_cache,
                   one_machine, attention_worker, expert_workers, expert_worker, expert_worker_of_fewer)
};

struct model_page {
  std::string model;                  ///< folder or file
  bool loads = false;                 ///< the weights are there, and nothing is wrong
  std::optional<std::string> error{}; ///< what `troupe serve` would say
  std::string weights;                ///< "none" or what is there
  std::optional<program_part> program{};
  std::optional<needs_part> needs{};
  std::vector<std::int32_t> end_tokens;
  std::optional<std::string> tokenizer{}; ///< its format
  std::vector<std::string> ignored;       ///< fields of config.json and generation_config.json
  std::vector<std::string> unused_tensors;

  TROUPE_PAGE_PART(model, loads, error, weights, program, needs, end_tokens, tokenizer, ignored,
                   unused_tensors)
};

} // namespace troupe::pages
