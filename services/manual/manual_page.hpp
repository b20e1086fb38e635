// Manual pages, in the macros of man(7).
#pragma once

#include <string>

#include "services/options/command_description.hpp"

namespace troupe::manual {

/// The release that all pages name.
struct release {
  std::string version; ///< "0.1.0"
  std::string date;    ///< "2026-01-31"
};

/// The page of a command, with its subcommands. The commands of a program have their own pages.
/// @param is_program  whether this is the page of a program
std::string manual_page(const command_description& command, const release& of, bool is_program);

/// "troupe-placement" of "troupe placement".
std::string page_name(const command_description& command);

} // namespace troupe::manual
