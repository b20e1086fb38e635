#include "actors/protocol/type_ids.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>
#include <caf/message.hpp>

#include "actors/protocol/error.hpp"

namespace troupe {

namespace {

template <class... Blocks>
void add(caf::actor_system_config& config, caf::detail::type_list<Blocks...>) {
  static_assert(((Blocks::end - Blocks::begin <= first_type_id::most) && ...));
  (config.add_message_types<Blocks>(), ...);
}

} // namespace

void configure(caf::actor_system_config& config) {
  config.add_message_types<caf::id_block::troupe_transport>();
  add(config, message_blocks{});
  config.add_error_category(caf::atom("troupe"),
                            [](std::uint8_t code, caf::atom_value, const caf::message& context) {
                              auto result = "troupe: " + to_string(static_cast<ec>(code));
                              if (context.match_elements<std::string>())
                                result += ": " + context.get_as<std::string>(0);
                              return result;
                            });
  config.set("scheduler.policy", caf::atom("sharing"));
}

} // namespace troupe
