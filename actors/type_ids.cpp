#include "actors/type_ids.hpp"

#include <caf/atom.hpp>
#include <caf/message.hpp>

#include "actors/error.hpp"

namespace troupe {

void configure(caf::actor_system_config& config) {
  config.add_message_types<caf::id_block::troupe_transport>();
  config.add_message_types<caf::id_block::troupe_actors>();
  config.add_error_category(caf::atom("troupe"),
                            [](uint8_t code, caf::atom_value, const caf::message& context) {
                              auto result = "troupe: " + to_string(static_cast<ec>(code));
                              if (context.match_elements<std::string>())
                                result += ": " + context.get_as<std::string>(0);
                              return result;
                            });
  config.set("scheduler.policy", caf::atom("sharing"));
}

} // namespace troupe
