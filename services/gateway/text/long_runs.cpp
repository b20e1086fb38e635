#include "services/gateway/text/long_runs.hpp"

#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <utility>
#include <vector>

namespace troupe::text {

namespace {

/// The White_Space property, and four separators of ASCII.
bool is_python_space(char32_t c) noexcept {
  return is_whitespace(c) || (c >= 0x1C && c <= 0x1F);
}

class long_run_cuts final : public pre_tokenizer {
 public:
  long_run_cuts(std::size_t longest_run, std::size_t longest_part)
      : longest_run_(longest_run), longest_part_(longest_part) {}

  void apply(pieces& text) const override {
    std::vector<piece> out;
    out.reserve(text.list.size());
    for (const auto& p : text.list)
      if (p.id == piece::to_encode && p.end - p.begin > longest_run_)
        cut(text.text, p, out);
      else
        out.push_back(p);
    text.list = std::move(out);
  }

  bool keeps_all() const override { return true; }

 private:
  void cut(std::string_view text, const piece& whole, std::vector<piece>& out) const {
    std::size_t begin = whole.begin;
    std::size_t characters = 0; // of the part of longest_part_
    std::size_t run = 0;
    bool blank = false;
    limited_steps steps(1024);
    for (std::size_t at = whole.begin; at < whole.end;) {
      steps.step();
      const auto c = decode_at(text, at);
      const bool is_blank = is_python_space(c.value);
      if (characters == longest_part_) {
        characters = 0;
        run = 0;
      }
      run = is_blank == blank ? run + 1 : 1;
      blank = is_blank;
      if (at > begin && (run > longest_run_ || characters == 0)) {
        out.push_back(part_of(whole, begin, at));
        begin = at;
        run = 1;
      }
      ++characters;
      at += c.size;
    }
    out.push_back(part_of(whole, begin, whole.end));
  }

  std::size_t longest_run_;
  std::size_t longest_part_;
};

} // namespace

std::unique_ptr<const pre_tokenizer> make_long_run_cuts(std::size_t longest_run, std::size_t longest_part) {
  return std::make_unique<long_run_cuts>(longest_run, longest_part);
}

} // namespace troupe::text
