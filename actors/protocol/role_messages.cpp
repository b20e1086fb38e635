#include "actors/protocol/role_messages.hpp"

namespace troupe {

std::string to_string(worker_role role) {
  switch (role) {
  case worker_role::gateway:
    return "gateway";
  case worker_role::attention:
    return "attention";
  case worker_role::expert:
    return "expert";
  }
  return "unknown_" + std::to_string(static_cast<unsigned>(role)); // from a newer peer
}

} // namespace troupe
