#include "services/options/processors.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <sched.h>

#include "services/options/cpu_quota.hpp"
#include "services/options/option_parser.hpp"

namespace troupe {

namespace {

// Takes a number off the front of `text`. @returns false when there is none
bool take_number(std::string_view& text, int& number) {
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || text.front() == '-')
    return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return true;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c)
    return false;
  text.remove_prefix(1);
  return true;
}

} // namespace

std::vector<int> usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> result;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(static_cast<std::size_t>(i), &set))
        result.push_back(i);
  }
  if (result.empty())
    result.push_back(0);
  return result;
}

std::uint32_t available_processors() {
  auto usable = static_cast<std::uint32_t>(usable_processors().size());
  return std::min(usable, processors_within(find_cpu_quota()).value_or(usable));
}

std::vector<int> parse_processors(const std::string& text, const std::string& flag) {
  auto usable = usable_processors();
  std::vector<int> result;
  std::string_view rest = text;
  do {
    int first = 0;
    if (!take_number(rest, first))
      throw option_error(flag + ": '" + text + "' is not a list of processors such as 0-3,8");
    int last = first;
    if (take(rest, '-') && (!take_number(rest, last) || last < first))
      throw option_error(flag + ": '" + text + "' is not a list of processors such as 0-3,8");
    for (int i = first; i <= last; ++i) {
      if (!std::binary_search(usable.begin(), usable.end(), i)) {
        throw option_error(flag + ": this process may not run on processor " + std::to_string(i)
                           + ", only on " + processors_text(usable));
      }
      if (std::find(result.begin(), result.end(), i) != result.end())
        throw option_error(flag + ": '" + text + "' names processor " + std::to_string(i) + " twice");
      result.push_back(i);
    }
  } while (take(rest, ','));
  if (!rest.empty())
    throw option_error(flag + ": '" + text + "' is not a list of processors such as 0-3,8");
  return result;
}

std::string processors_text(std::span<const int> processors) {
  std::string result;
  for (int processor : processors)
    result += (result.empty() ? "" : ",") + std::to_string(processor);
  return result;
}

std::vector<int> processors_of(std::span<const int> all, std::size_t index, std::size_t count,
                               std::size_t length) {
  std::vector<int> result;
  for (std::size_t i = 0; i < length && !all.empty(); ++i)
    result.push_back(all[(index * all.size() / count + i) % all.size()]);
  return result;
}

} // namespace troupe
