// What `troupe inspect` says of a model, for people.
#pragma once

#include <string>

#include "services/pages/model_page.hpp"

namespace troupe {

/// One line for each thing that the page says.
std::string model_table(const pages::model_page& page);

} // namespace troupe
