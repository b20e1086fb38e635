// Template processes for tests: the real program in the build folder.
#pragma once

#include "services/gateway/text/template_processes.hpp"

#include <memory>
#include <utility>

namespace troupe::text {

inline template_process_options real_program(template_process_options options = {}) {
  options.program = TROUPE_TEMPLATE_PROGRAM;
  return options;
}

/// A shared pool for harmless templates.
inline const std::shared_ptr<template_processes>& shared_processes() {
  static const auto instance = std::make_shared<template_processes>(real_program());
  return instance;
}

} // namespace troupe::text
