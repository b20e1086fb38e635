#include "kernels/tensor.hpp"

namespace troupe::kernels {

const char* name_of(dtype type) {
  switch (type) {
  case dtype::f32:
    return "f32";
  case dtype::bf16:
    return "bf16";
  case dtype::f16:
    return "f16";
  case dtype::int8:
    return "int8";
  case dtype::int4:
    return "int4";
  }
  return "unknown";
}

} // namespace troupe::kernels
