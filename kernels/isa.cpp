#include "kernels/isa.hpp"

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/cpu/kernel_table.hpp"

namespace troupe::kernels {

namespace {

constexpr std::array all_sets{isa::portable, isa::avx2, isa::avx512, isa::amx};

bool processor_has(isa set) {
  switch (set) {
  case isa::portable:
    return true;
#if defined(TROUPE_X86_KERNELS)
  case isa::avx2:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  case isa::avx512:
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  case isa::avx2:
  case isa::avx512:
#endif
  case isa::amx:
    return false;
  }
  return false;
}

struct supported_sets {
  std::array<isa, all_sets.size()> sets{};
  std::size_t count = 0;

  supported_sets() {
    for (const isa set : all_sets)
      if (processor_has(set))
        sets[count++] = set;
  }
};

} // namespace

const char* name_of(isa set) {
  switch (set) {
  case isa::portable:
    return "portable";
  case isa::avx2:
    return "avx2";
  case isa::avx512:
    return "avx512";
  case isa::amx:
    return "amx";
  }
  return "unknown";
}

std::optional<isa> isa_from_name(std::string_view name) {
  for (const isa set : all_sets)
    if (name == name_of(set))
      return set;
  return std::nullopt;
}

bool is_supported(isa set) {
  return processor_has(set);
}

std::span<const isa> supported_isas() {
  static const supported_sets known;
  return {known.sets.data(), known.count};
}

isa detect() {
  return supported_isas().back();
}

const kernel_table& table_of(isa set) {
  if (!is_supported(set))
    throw std::runtime_error(std::string("instruction set ") + name_of(set) + " is not supported here");
#if defined(TROUPE_X86_KERNELS)
  if (set == isa::avx2)
    return cpu::avx2_table;
  if (set == isa::avx512)
    return cpu::avx512_table;
#endif
  return cpu::portable_table;
}

} // namespace troupe::kernels
