#include "kernels/isa.hpp"

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/cpu/gemm/plan.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

#if defined(TROUPE_X86_KERNELS)
#  include <cpuid.h>
#endif
#if defined(TROUPE_X86_KERNELS) && defined(__linux__)
#  include <sys/syscall.h>
#  include <unistd.h>
#endif

namespace troupe::kernels {

namespace {

constexpr std::array<isa, num_isas> all_sets{isa::portable, isa::avx2, isa::avx512, isa::avx512_bf16,
                                             isa::amx};

#if defined(TROUPE_X86_KERNELS)
// Asks the processor (leaf 7, EDX: 22 AMX-BF16, 24 AMX-TILE, 25 AMX-INT8), then the system, which grants the
// tile registers (8 KiB a thread) only on request.
bool tiles_granted() {
#  if defined(__linux__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned wanted = 1U << 22 | 1U << 24 | 1U << 25;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & wanted) != wanted)
    return false;
  constexpr long arch_req_xcomp_perm = 0x1023;
  constexpr long xfeature_xtiledata = 18;
  return ::syscall(SYS_arch_prctl, arch_req_xcomp_perm, xfeature_xtiledata) == 0;
#  else
  return false;
#  endif
}
#endif

#if defined(TROUPE_X86_KERNELS)
// The first processors with AVX-512 have no dot products of bytes (VNNI).
bool has_byte_dots() {
  return __builtin_cpu_supports("avx512vnni");
}

const kernel_table& avx512_table() {
  static const kernel_table table = [] {
    kernel_table t = cpu::avx512_table;
    if (!has_byte_dots())
      t.quant.integer_streams = t.quant.integer_unpacked = nullptr;
    return t;
  }();
  return table;
}
#endif

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
  case isa::avx512_bf16:
    return processor_has(isa::avx512) && has_byte_dots() && __builtin_cpu_supports("avx512bf16");
  case isa::amx: {
    static const bool granted = processor_has(isa::avx512_bf16) && tiles_granted();
    return granted;
  }
#else
  case isa::avx2:
  case isa::avx512:
  case isa::avx512_bf16:
  case isa::amx:
    return false;
#endif
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
    if (!has_fast_dot_products())
      for (std::size_t i = 1; i < count; ++i)
        if (sets.at(i) == isa::avx512_bf16)
          std::swap(sets.at(i), sets.at(i - 1)); // plain AVX-512 is supported, too
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
  case isa::avx512_bf16:
    return "avx512_bf16";
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
    return avx512_table();
  if (set == isa::avx512_bf16)
    return cpu::avx512_bf16_table();
  if (set == isa::amx)
    return cpu::amx_table();
#endif
  return cpu::portable_table;
}

} // namespace troupe::kernels
