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

std::string quantization::stored_name() const {
  return std::string{name_of(experts)} + (dense_int8 ? "+dense-int8" : "");
}

std::string quantization::name() const {
  return stored_name() + (any() && rows == kernels::row_quant::int8 ? "+rows-int8" : "");
}

kernels::packed_format expert_format(const quantization& quant, kernels::dtype type) {
  switch (quant.experts) {
  case expert_quant::none:
    break;
  case expert_quant::int8:
    return kernels::packed_format::int8_channel;
  case expert_quant::int4_group32:
    return kernels::packed_format::int4_group32;
  case expert_quant::int4_group64:
    return kernels::packed_format::int4_group64;
  case expert_quant::int4_channel:
    return kernels::packed_format::int4_channel;
  }
  return kernels::format_for(type);
}

kernels::packed_format dense_format(const quantization& quant, kernels::dtype type) {
  return quant.dense_int8 ? kernels::packed_format::int8_channel : kernels::format_for(type);
}

} // namespace troupe::model
