#include "kernels/model/expert_backend.hpp"

#include "kernels/model/error.hpp"
#include "kernels/model/packed_expert.hpp"

namespace troupe::model {

std::shared_ptr<const packed_expert> expert_backend::packed(std::size_t /*layer*/,
                                                            std::size_t /*expert*/) const {
  return nullptr;
}

std::unique_ptr<arriving_expert> expert_backend::expect(std::size_t /*layer*/,
                                                        const std::string& /*layout*/) const {
  throw model_error("this device takes no experts from other workers");
}

void expert_backend::take(std::size_t /*layer*/, std::size_t /*expert*/,
                          std::unique_ptr<arriving_expert> /*arrived*/) {
  throw model_error("this device takes no experts from other workers");
}

} // namespace troupe::model
