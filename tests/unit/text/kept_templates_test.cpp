// What the embedded interpreter keeps: the model's own templates, and nothing of what comes with requests.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "services/gateway/text/chat_template.hpp"
#include "services/gateway/text/text_error.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace troupe::text {

namespace {

/// An integer that a Python expression over jinja_environment.py's names gives.
long evaluate(const std::string& expression) {
  const auto state = PyGILState_Ensure();
  PyObject* const module = PyImport_ImportModule("troupe_jinja_environment");
  PyObject* const names = module == nullptr ? nullptr : PyModule_GetDict(module); // belongs to the module
  PyObject* const value =
      names == nullptr ? nullptr : PyRun_String(expression.c_str(), Py_eval_input, names, names);
  const long result = value == nullptr ? -1 : PyLong_AsLong(value);
  const bool failed = PyErr_Occurred() != nullptr;
  if (failed) {
    PyErr_Print();
  }
  Py_XDECREF(value);
  Py_XDECREF(module);
  PyGILState_Release(state);
  if (failed) {
    throw std::runtime_error(expression);
  }
  return result;
}

/// Compiled templates that are there, wherever.
long living_templates() {
  return evaluate("[__import__('gc').collect(), sum(isinstance(one, jinja2.Template) for one in "
                  "__import__('gc').get_objects())][1]");
}

TEST(kept_templates, are_the_models_whatever_comes_with_requests) {
  const std::string own = "the model's: {{ messages[0].content }}";
  const chat_template chat(own);
  const auto identity = "id(kept[\"" + own + "\"])";
  const auto kept = evaluate("len(kept)");
  const auto object = evaluate(identity);
  const auto living = living_templates();
  constexpr const char* one_user = R"([{"role": "user", "content": "hi"}])";
  for (int i = 0; i < 100; ++i) {
    const auto sent = std::to_string(i) + ": {{ messages[0].content }}";
    EXPECT_EQ(chat.render({.messages = one_user, .source = sent}), std::to_string(i) + ": hi");
    EXPECT_THROW(chat.render({.messages = one_user, .source = sent + "{% for %}"}), template_error);
  }
  EXPECT_EQ(evaluate("len(kept)"), kept);
  EXPECT_EQ(evaluate(identity), object);
  EXPECT_EQ(living_templates(), living);
  EXPECT_EQ(chat.render({.messages = one_user, .source = own}), "the model's: hi");
  EXPECT_EQ(chat.render({.messages = one_user}), "the model's: hi");
  EXPECT_EQ(living_templates(), living) << "what is kept is used";
}

} // namespace

} // namespace troupe::text
