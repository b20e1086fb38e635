#include "services/options/device_choice.hpp"

#include <charconv>
#include <string_view>

#include "services/options/option_parser.hpp"

namespace troupe {

device_choice parse_device(const std::string& text) {
  constexpr std::string_view cuda = "cuda";
  if (text == "auto")
    return {};
  if (text == "cpu")
    return {device_choice::kind_type::cpu, 0};
  if (text == cuda)
    return {device_choice::kind_type::cuda, 0};
  if (std::string_view rest = text; rest.starts_with(cuda) && rest.substr(cuda.size()).starts_with(':')) {
    rest.remove_prefix(cuda.size() + 1);
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (!rest.empty() && error == std::errc{} && end == rest.data() + rest.size())
      return {device_choice::kind_type::cuda, number};
  }
  throw option_error("--device: '" + text + "' is not one of auto|cpu|cuda[:N]");
}

} // namespace troupe
