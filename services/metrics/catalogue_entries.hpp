// The entries of the catalogue, one function per kind of process.
#pragma once

#include <vector>

#include "services/metrics/catalogue.hpp"

namespace troupe::metrics {

// Short names of the kinds, for the tables.
constexpr auto counter = family_type::counter;
constexpr auto gauge = family_type::gauge;
constexpr auto histogram = family_type::histogram;

std::vector<family_spec> gateway_entries();
std::vector<family_spec> scheduler_entries();
std::vector<family_spec> attention_entries();
std::vector<family_spec> expert_entries();
/// Entries of every process.
std::vector<family_spec> common_entries();

} // namespace troupe::metrics
