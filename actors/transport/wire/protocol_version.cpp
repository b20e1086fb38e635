#include "actors/transport/wire/protocol_version.hpp"

namespace troupe::wire {

version_range protocol_versions() {
#ifdef TROUPE_NEXT_VERSION // tests/system/rolling_upgrade_test.py: the release after this one
  return {9, 10};
#else
  return {9, 9};
#endif
}

} // namespace troupe::wire
