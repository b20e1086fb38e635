// Manual pages, in the macros of man(7).
#pragma once

#include <string>

#include "services/options/command_description.hpp"

namespace troupe::manual {

/// What all pages say of the release.
struct release {
  std::string version; ///< "0.1.0"
  std::string date;    ///< "2026-01-31"
};

/// The page of a command. What its own commands take is in it; those of a program have pages of their own.
/// @param is_program  it has no other command before it
std::string manual_page(const command_description& command, const release& of, bool is_program);

/// "troupe-placement" of "troupe placement".
std::string page_name(const command_description& command);

} // namespace troupe::manual
