// What a load run asks: prompts from a file, or random token ids from a seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::load {

/// One request to come.
struct prompt {
  std::string text;            ///< empty when `tokens` is used
  std::vector<int32_t> tokens; ///< random ids
  uint32_t max_tokens = 0;
};

struct length_range {
  uint32_t low = 0;
  uint32_t high = 0; ///< inclusive
};

/// "LO:HI" or "N". @throws std::invalid_argument naming `flag`
length_range parse_range(const std::string& text, const std::string& flag);

/// Reads the "prompt" of each line of a JSONL file. @throws std::runtime_error naming file and line
std::vector<std::string> read_prompts(const std::filesystem::path& file);

/// Prompts that have something in common: a language, a subject.
struct domain {
  std::string name;
  std::vector<std::string> texts;
};

/// Each file is a domain that has its name without ".jsonl"; a folder is one for each such file in it.
/// @throws std::runtime_error for what cannot be read, a folder without any, a name that comes twice
std::vector<domain> read_domains(const std::vector<std::string>& files_and_folders);

/// The requests of several lists in turn: the first of each, the second of each, and so on.
std::vector<prompt> interleaved(const std::vector<std::vector<prompt>>& lists);

/// `count` requests in the order of a seed: prompts of `texts` drawn with replacement, or, when there are
/// none, random ids below `vocab_size` of a length drawn from `input`; answer lengths drawn from `output`.
/// The same arguments give the same requests on every machine.
std::vector<prompt> make_prompts(const std::vector<std::string>& texts, uint32_t count, uint64_t seed,
                                 length_range input, length_range output, uint32_t vocab_size);

/// When requests are sent, as `vllm bench serve` has it: gaps are gamma distributed with mean 1 / rate and
/// shape `burstiness` (1: a Poisson process; infinite: all gaps alike), the first one before the first
/// request; then all are scaled so that the last request comes at count / rate, whatever the seed.
/// @param rate  requests per second; 0 or infinite: all at once
/// @returns [count] seconds since the start, ascending
std::vector<double> arrival_times(uint32_t count, double rate, double burstiness, uint64_t seed);

} // namespace troupe::load
