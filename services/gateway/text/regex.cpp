#include "services/gateway/text/regex.hpp"

#include "services/gateway/text/regex_syntax.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

namespace troupe::text {

namespace {

// Enough for the published patterns on megabytes of text. Ends catastrophic backtracking within about a
// second, between two checks of the work limit.
constexpr std::uint32_t match_limit = 10'000'000;
constexpr std::size_t heap_limit_kib = 256UL << 10U;
constexpr std::size_t jit_stack_start = 32UL << 10U;
constexpr std::size_t jit_stack_max = 16UL << 20U;

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// What one thread needs for matching: result vector, limits and the JIT's stack.
struct match_state {
  match_state()
      : data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(jit_stack_start, jit_stack_max, nullptr)) {
    if (data == nullptr || context == nullptr || stack == nullptr) {
      release();
      throw text_error("no memory for matching regular expressions");
    }
    pcre2_set_match_limit(context, match_limit);
    pcre2_set_heap_limit(context, static_cast<std::uint32_t>(heap_limit_kib));
    pcre2_jit_stack_assign(context, nullptr, stack);
  }

  match_state(const match_state&) = delete;
  match_state& operator=(const match_state&) = delete;

  ~match_state() { release(); }

  void release() noexcept {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

match_state& this_thread_state() {
  thread_local match_state state;
  return state;
}

} // namespace

struct regex::compiled {
  explicit compiled(pcre2_code* owned) noexcept : code(owned) {}

  compiled(const compiled&) = delete;
  compiled& operator=(const compiled&) = delete;

  ~compiled() { pcre2_code_free(code); }

  pcre2_code* code;
};

regex::regex() = default;
regex::regex(regex&&) noexcept = default;
regex& regex::operator=(regex&&) noexcept = default;
regex::~regex() = default;

regex regex::from_pattern(std::string_view oniguruma) {
  constexpr std::size_t longest_pattern = 64UL << 10U;
  if (oniguruma.size() > longest_pattern)
    throw text_error("regular expression is longer than 64 KiB");
  const std::string pattern = to_pcre2(oniguruma);
  int code = 0;
  PCRE2_SIZE offset = 0;
  auto* program = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code,
                                &offset, nullptr);
  if (program == nullptr)
    throw text_error("regular expression '" + std::string(oniguruma) + "': " + error_text(code));
  regex out;
  out.compiled_ = std::make_unique<compiled>(program);
  pcre2_jit_compile(program, PCRE2_JIT_COMPLETE); // without a JIT, pcre2_match interprets
  return out;
}

regex regex::from_literal(std::string literal) {
  if (literal.empty())
    throw text_error("an empty pattern matches everywhere");
  regex out;
  out.literal_ = std::move(literal);
  return out;
}

std::optional<match_range> regex::search(std::string_view text, std::size_t from) const {
  if (!compiled_) {
    const auto found = text.find(literal_, from);
    return found == std::string_view::npos ? std::nullopt
                                           : std::optional<match_range>({found, found + literal_.size()});
  }
  auto& state = this_thread_state();
  const int rc = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                             PCRE2_NO_UTF_CHECK, state.data, state.context);
  if (rc == PCRE2_ERROR_NOMATCH)
    return std::nullopt;
  if (rc < 0)
    throw text_error("the tokenizer's regular expression gives up on this text: " + error_text(rc));
  const auto* where = pcre2_get_ovector_pointer(state.data);
  // \K and lookbehind assertions can put the start after the end or before the cursor.
  if (where[0] < from || where[1] < where[0])
    throw text_error("the tokenizer's regular expression matches backwards on this text");
  return match_range{where[0], where[1]};
}

std::optional<match_range> regex::next(std::string_view text, cursor& at) const {
  while (at.from <= text.size()) {
    check_work_limit();
    const auto found = search(text, at.from);
    if (!found) {
      at.from = text.size() + 1;
      return std::nullopt;
    }
    if (found->begin == found->end && at.last_end == found->end) {
      at.from += at.from < text.size() ? utf8_size(text[at.from]) : 1;
      continue;
    }
    at.from = found->end;
    at.last_end = found->end;
    return found;
  }
  return std::nullopt;
}

} // namespace troupe::text
