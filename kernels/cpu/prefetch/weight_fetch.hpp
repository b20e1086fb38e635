// Prefetches weights from memory for few rows: several panels side by side. Included only by the kernels of
// AVX-512 and AMX.
#pragma once

#include <type_traits>

#include "kernels/cpu/simd/simd.hpp"
#include "kernels/cpu/tables/quant_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// K of one step of the integer kernels: 1 KiB of a panel of int8, 512 bytes of int4.
constexpr std::size_t step_k = 64;

[[gnu::always_inline]] constexpr std::size_t step_bytes(packed_format format) {
  return format == packed_format::int8_channel ? step_k * 16 : step_k * 8;
}

/// Panel number `index` of `panels` from `first` on, `stride` bytes apart, followed by those of `next`; null
/// after these.
TROUPE_INLINE const std::byte* panel_behind(const std::byte* first, std::size_t stride, std::size_t panels,
                                            const upcoming_panels& next, std::size_t index) {
  if (index < panels)
    return first + index * stride;
  return index - panels < next.count ? next.first + (index - panels) * stride : nullptr;
}

/// Prefetch addresses while streams of panels are read side by side, one panel of each at a time: some KiB
/// ahead in each stream, then in the following panels, then in those of the thread's next product. One stream
/// per thread does not reach the memory's bandwidth, nor do streams that jump with every panel: each should
/// continue.
class weight_fetcher {
 public:
  /// @param first   panel of the first of `streams` streams, which begin `distance` panels apart
  /// @param bytes   of a panel's weights; `stride` lie between panels
  /// @param behind  the panels read afterwards, in as many streams of equal length; nothing after these is
  /// touched. It also has the total prefetch distance
  weight_fetcher(const std::byte* first, std::size_t stride, std::size_t bytes, std::size_t streams,
                 std::size_t distance, const upcoming_panels& behind)
      : first_(first),
        behind_(behind.first),
        distance_(distance * stride),
        behind_distance_((behind.count < streams ? 1 : behind.count / streams) * stride),
        behind_streams_(behind.first == nullptr  ? 0
                        : behind.count < streams ? behind.count
                                                 : streams),
        bytes_(bytes),
        ahead_(behind.bytes_ahead / streams) {}

  /// For panels with lines of group scales: they are prefetched, too, and do not count in offsets.
  void with_scales(const int4_layout& layout) {
    if (layout.has_groups())
      line_shift_ = layout.group_blocks + 9; // 1 or 2 KiB of weights after each
  }

  /// The line to prefetch for each line that is read of stream `s` from its panel's byte `offset` of weights
  /// on, for one step.
  inline __attribute__((always_inline)) const std::byte* operator()(std::size_t s, std::size_t offset) const {
    std::size_t at = offset + ahead_;
    if (line_shift_ != 0)
      at += ((offset >> line_shift_) + 1) * scale_line_bytes;
    const std::byte* panel = first_ + s * distance_;
    if (at >= bytes_) {
      at -= bytes_;
      if (at >= bytes_ || s >= behind_streams_)
        return first_; // nothing to prefetch: a line in the cache
      panel = behind_ + s * behind_distance_;
    }
    if (line_shift_ != 0) // if a line of scales follows a step, the next step begins a line later
      _mm_prefetch(reinterpret_cast<const char*>(panel + at + 512), _MM_HINT_T1);
    return panel + at;
  }

  /// For one line that is read at `from`, in a step of `StepBytes`: prefetches `far` from memory into L2, and
  /// what lies 1 KiB further on in the panel from L2 into L1. A core has few buffers for lines on their way
  /// to L1: they must not wait for memory. Then the line itself is loaded: a loop that only prefetches is
  /// faster than memory, and a prefetch into L2 without a free buffer is dropped. One statement, so that the
  /// compiler keeps the order.
  template <std::size_t /*StepBytes*/>
  static inline __attribute__((always_inline)) void fetch_line(const std::byte* far, const std::byte* from) {
    int loaded = 0;
    __asm__ volatile("prefetcht1 %1\n\tprefetcht0 %2\n\tmovl %3, %0"
                     : "=r"(loaded)
                     : "m"(*far), "m"(from[bytes_ahead_in_l1]), "m"(*reinterpret_cast<const int*>(from)));
  }

  /// Prefetches one more line after each step of int4, from L2: a line of scales may follow the step, and a
  /// later step then reads one line more than `fetch_line` has prefetched for it.
  template <std::size_t /*StepBytes*/>
  static inline __attribute__((always_inline)) void fetch_behind(const std::byte* from) {
    _mm_prefetch(reinterpret_cast<const char*>(from + bytes_ahead_in_l1), _MM_HINT_T0);
  }

 private:
  static constexpr std::size_t bytes_ahead_in_l1 = 1024;

  const std::byte* first_;
  const std::byte* behind_;
  std::size_t distance_;
  std::size_t behind_distance_;
  std::size_t behind_streams_;
  std::size_t bytes_;
  std::size_t ahead_;
  std::size_t line_shift_ = 0; // log2 of the bytes of weights after a line of scales; 0: none
};

/// Divides a tile's panels into `Most` streams of equal length, the rest into half as many, and so on. Calls
/// `step(streams, panel, distance, fetcher)` for one panel of each stream at a time: panels `panel` + s ·
/// `distance` of the tile, s < `streams`, an integral constant.
/// @param first, stride, bytes  as of `weight_fetcher`
template <std::size_t Most, class Step>
TROUPE_INLINE void for_each_stream_step(const std::byte* first, std::size_t stride, std::size_t bytes,
                                        std::size_t panels, const upcoming_panels& next, const Step& step,
                                        std::size_t from = 0) {
  const std::size_t length = (panels - from) / Most;
  const std::size_t end = from + length * Most;
  for (std::size_t p = from; p < from + length; ++p) {
    const std::byte* panel = first + p * stride;
    upcoming_panels behind = next;
    if (p + 1 < from + length)
      behind = {panel + stride, length * Most, 0, next.bytes_ahead};
    else if (end < panels)
      behind = {first + end * stride, panels - end, 0, next.bytes_ahead};
    step(std::integral_constant<std::size_t, Most>{}, p, length,
         weight_fetcher(panel, stride, bytes, Most, length, behind));
  }
  if constexpr (Most > 1)
    for_each_stream_step<Most / 2>(first, stride, bytes, panels, next, step, end);
}

/// Prefetch addresses while panels are read side by side, in the order of addresses: what follows all of them
/// comes from memory as one stream, whichever of them is multiplied. Faster on AMD's processors.
class group_fetcher {
 public:
  /// @param panels  from `first` on, followed by `next`
  group_fetcher(const quant_panel& first, std::size_t side_by_side, std::size_t panels, std::size_t k,
                const upcoming_panels& next)
      : first_(first.weights),
        behind_(panel_behind(first.weights, first.stride, panels, next, side_by_side)),
        side_by_side_(side_by_side),
        step_bytes_(step_bytes(first.format)),
        step_lines_log2_(first.format == packed_format::int8_channel ? 4 : 3),
        stepped_(side_by_side * ((k + step_k - 1) / step_k * step_bytes_)) {
    const std::size_t there = panels > side_by_side ? panels - side_by_side : next.count;
    end_ = (there < side_by_side ? there : side_by_side) * first.stride;
  }

  /// The line to prefetch for each line that is read of panel `p` from its byte `offset` on, for one step.
  inline __attribute__((always_inline)) const std::byte* operator()(std::size_t p, std::size_t offset) const {
    if (behind_ == nullptr)
      return first_; // nothing to prefetch: a line in the cache
    const std::size_t at = offset * side_by_side_ + p * step_bytes_;
    // Steps prefetch as many lines of weights as they read, 16 or 8. The rest of the panels, as large as
    // their lines of scales, is prefetched one line each by the first steps.
    const std::size_t left = stepped_ + (at >> step_lines_log2_);
    if (left < end_)
      _mm_prefetch(reinterpret_cast<const char*>(behind_ + left), _MM_HINT_T1);
    return at < end_ ? behind_ + at : first_;
  }

  template <std::size_t StepBytes>
  static inline __attribute__((always_inline)) void fetch_line(const std::byte* far, const std::byte* from) {
    _mm_prefetch(reinterpret_cast<const char*>(far), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(from + bytes_ahead_in_l1), _MM_HINT_T0);
  }

  template <std::size_t /*StepBytes*/>
  static inline __attribute__((always_inline)) void fetch_behind(const std::byte* from) {
    _mm_prefetch(reinterpret_cast<const char*>(from + bytes_ahead_in_l1), _MM_HINT_T0);
  }

 private:
  static constexpr std::size_t bytes_ahead_in_l1 = 512;

  const std::byte* first_;
  const std::byte* behind_; // null: nothing to prefetch
  std::size_t side_by_side_;
  std::size_t step_bytes_;
  unsigned step_lines_log2_;
  std::size_t stepped_; // bytes of all steps
  std::size_t end_ = 0; // bytes that may be prefetched
};

/// Used when more rows pass the panels than registers hold sums of: each pass of a block of rows prefetches
/// its share of the next panels. Otherwise the first block of the next pass would wait for memory, and the
/// others leave it idle.
class share_fetcher {
 public:
  /// @param passes  over the same panels; this is number `pass`
  /// @param panels  from `first` on, followed by `next`
  share_fetcher(const quant_panel& first, std::size_t side_by_side, std::size_t panels, std::size_t k,
                const upcoming_panels& next, std::size_t pass, std::size_t passes)
      : first_(first.weights), stride_(first.stride), step_bytes_(step_bytes(first.format)) {
    const std::size_t steps = (k + step_k - 1) / step_k;
    lines_ = (stride_ / 64 + passes * steps - 1) / (passes * steps);
    begin_ = pass * steps * lines_ * 64;
    for (std::size_t p = 0; p < side_by_side; ++p)
      upcoming_[p] = panel_behind(first.weights, stride_, panels, next, p + side_by_side);
  }

  /// Prefetches for one step of panel `p`, whose weights are read from byte `offset` on.
  inline __attribute__((always_inline)) const std::byte* operator()(std::size_t p, std::size_t offset) const {
    if (upcoming_[p] != nullptr) {
      const std::size_t from = begin_ + offset / step_bytes_ * lines_ * 64;
      for (std::size_t at = from; at < from + lines_ * 64 && at < stride_; at += 64)
        _mm_prefetch(reinterpret_cast<const char*>(upcoming_[p] + at), _MM_HINT_T1);
    }
    return first_;
  }

  /// The next step's line, from L2 into L1.
  template <std::size_t StepBytes>
  static inline __attribute__((always_inline)) void fetch_line(const std::byte* /*far*/,
                                                               const std::byte* from) {
    _mm_prefetch(reinterpret_cast<const char*>(from + StepBytes), _MM_HINT_T0);
  }

  template <std::size_t StepBytes>
  static inline __attribute__((always_inline)) void fetch_behind(const std::byte* from) {
    _mm_prefetch(reinterpret_cast<const char*>(from + StepBytes), _MM_HINT_T0);
  }

 private:
  static constexpr std::size_t most_panels = 4;

  const std::byte* first_;
  const std::byte* upcoming_[most_panels] = {}; // null: nothing to prefetch
  std::size_t stride_;
  std::size_t step_bytes_;
  std::size_t lines_ = 0; // of a step
  std::size_t begin_ = 0;
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
