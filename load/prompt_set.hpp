// The requests of a load run: prompts from a file, or random token ids from a seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::load {

/// One request.
struct prompt {
  std::string text;                 ///< empty if `tokens` is used
  std::vector<std::int32_t> tokens; ///< random ids
  std::uint32_t max_tokens = 0;
};

struct length_range {
  std::uint32_t low = 0;
  std::uint32_t high = 0; ///< inclusive
};

/// Reads "LO:HI" or "N".
/// @throws std::invalid_argument naming `flag`
length_range parse_range(const std::string& text, const std::string& flag);

/// Reads the "prompt" of each line of a JSONL file.
/// @throws std::runtime_error naming file and line
std::vector<std::string> read_prompts(const std::filesystem::path& file);

/// Prompts with a common trait, such as a language or a subject.
struct domain {
  std::string name;
  std::vector<std::string> texts;
};

/// Each file is a domain, named like it without ".jsonl"; a folder stands for all such files in it.
/// @throws std::runtime_error  a file is unreadable, a folder has no such file, or a name occurs twice
std::vector<domain> read_domains(const std::vector<std::string>& files_and_folders);

/// The requests of several lists in turn: the first of each, the second of each, and so on.
std::vector<prompt> interleaved(const std::vector<std::vector<prompt>>& lists);

/// `count` requests in an order that the seed determines. Prompts are drawn from `texts` with replacement;
/// without texts, they are random ids below `vocab_size` with lengths from `input`. Answer lengths are drawn
/// from `output`. The same arguments give the same requests on every machine.
std::vector<prompt> make_prompts(const std::vector<std::string>& texts, std::uint32_t count,
                                 std::uint64_t seed, length_range input, length_range output,
                                 std::uint32_t vocab_size);

/// Arrival times by the model of `vllm bench serve`: gaps are gamma distributed with mean 1 / rate and shape
/// `burstiness` (1: a Poisson process; infinite: equal gaps), the first one before the first request. All are
/// then scaled so that the last request comes at count / rate for every seed.
/// @param rate  requests per second; 0 or infinite: all at once
/// @returns [count] seconds since the start, ascending
std::vector<double> arrival_times(std::uint32_t count, double rate, double burstiness, std::uint64_t seed);

} // namespace troupe::load
