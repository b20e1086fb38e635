#include "services/manual/manual_page.hpp"

#include <algorithm>
#include <sstream>

namespace troupe::manual {

namespace {

/// Text as roff prints it: no line is a request, and a dash is one that can be copied.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n'))
      result += std::string("\\&") + c;
    else
      result += c;
  return result;
}

std::string bold(const std::string& text) {
  return "\\fB" + escaped(text) + "\\fR";
}

std::string italic(const std::string& text) {
  return "\\fI" + escaped(text) + "\\fR";
}

std::string capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); });
  return text;
}

/// A summary as it stands behind a name: in lower case, without a full stop.
std::string phrase(std::string text) {
  if (text.size() > 1 && text[0] >= 'A' && text[0] <= 'Z' && !(text[1] >= 'A' && text[1] <= 'Z'))
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  if (!text.empty() && text.back() == '.')
    text.pop_back();
  return text;
}

std::string entry(const std::string& tag, const std::string& text) {
  return ".TP\n" + tag + "\n" + escaped(text) + "\n";
}

std::string synopsis(const command_description& command) {
  std::string line = bold(command.name);
  for (const auto& argument : command.arguments)
    line += " " + italic(argument.name);
  return line + (command.options.empty() ? "" : " [flags]");
}

std::string arguments_and_options(const command_description& command) {
  std::string text;
  for (const auto& argument : command.arguments)
    text += entry(italic(argument.name), argument.help);
  for (const auto& option : command.options) {
    const std::string value = option.placeholder.empty() ? "" : " " + italic(option.placeholder);
    const std::string preset = option.default_text.empty() ? "" : " (default: " + option.default_text + ")";
    text += entry(bold("--" + option.name) + value, option.help + preset);
  }
  return text;
}

std::string lines(const std::string& text) {
  std::istringstream in(text);
  std::string result;
  for (std::string line; std::getline(in, line);)
    result += (result.empty() ? "" : ".br\n") + escaped(line) + "\n";
  return result;
}

} // namespace

std::string page_name(const command_description& command) {
  std::string name = command.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string manual_page(const command_description& command, const release& of, bool is_program) {
  std::string page = ".TH " + capitals(escaped(page_name(command))) + " 1 " + of.date + " \"Troupe "
                     + of.version + "\" \"Troupe\"\n.SH NAME\n" + escaped(page_name(command)) + " \\- "
                     + escaped(phrase(command.summary)) + "\n.SH SYNOPSIS\n";
  if (!command.options.empty() || command.commands.empty())
    page += synopsis(command) + "\n";
  if (!command.commands.empty()) {
    page += (command.options.empty() ? "" : ".br\n") + bold(command.name) + " " + italic("COMMAND")
            + " [arguments]\n";
  }
  page += ".SH DESCRIPTION\n" + escaped(command.text.empty() ? command.summary : command.text) + "\n";
  if (!command.footer.empty())
    page += ".PP\n" + lines(command.footer);
  if (!command.arguments.empty() || !command.options.empty())
    page += ".SH OPTIONS\n" + arguments_and_options(command);
  if (!command.commands.empty()) {
    page += ".SH COMMANDS\n";
    for (const auto& inner : command.commands) {
      page += is_program ? entry(bold(page_name(inner)) + "(1)", inner.summary)
                         : ".SS " + escaped(inner.name) + "\n" + synopsis(inner) + "\n.PP\n"
                               + escaped(inner.text) + "\n" + arguments_and_options(inner);
    }
  }
  page += ".SH ENVIRONMENT\n" + escaped("Every flag can also be given as an environment variable ") + "("
          + bold("--max-num-seqs") + ": " + bold("TROUPE_MAX_NUM_SEQS") + "), "
          + escaped("or as a key of the JSON object in the file that ") + bold("--config")
          + escaped(" names. Flags win over variables, and these over the file.") + "\n";
  page += ".SH EXIT STATUS\n"
          + escaped("0 when all was done, 2 after a flag that cannot be understood, 1 after any other error.")
          + "\n";
  return page;
}

} // namespace troupe::manual
