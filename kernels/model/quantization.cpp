#include "kernels/model/quantization.hpp"

namespace troupe::model {

namespace {

const char* name_of(expert_quant quant) {
  switch (quant) {
  case expert_quant::none:
    return "none";
  case expert_quant::int8:
    return "int8";
  case expert_quant::int4_group32:
    return "int4-group32";
  case expert_quant::int4_group64:
    return "int4-group64";
  case expert_quant::int4_channel:
    return "int4-channel";
  }
  return "?";
}

} // namespace

const char* name_of(dense_quant quant) {
  switch (quant) {
  case dense_quant::none:
    return "none";
  case dense_quant::int8:
    return "int8";
  case dense_quant::int4_group32:
    return "int4-group32";
  }
  return "?";
}

std::string quantization::stored_name() const {
  return std::string{name_of(experts)}
         + (dense == dense_quant::none ? "" : std::string{"+dense-"} + name_of(dense));
}

std::string quantization::name() const {
  return stored_name() + (any() && rows == kernels::row_quant::int8 ? "+rows-int8" : "");
}

} // namespace troupe::model
