// What the chat templates of model families use of Jinja2 and of transformers, in short templates of our own.

#include "services/gateway/text/chat_template.hpp"
#include "tests/unit/text/template_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace troupe::text {

namespace {

constexpr const char* weather = R"([{"type": "function", "function": {"name": "f", "description": "<Grüße>",
  "parameters": {"type": "object", "properties": {"where": {"type": "array", "items": {"type": "string"}},
                                                  "unit": {"type": "string", "enum": ["C", "F"]}}}}}])";

constexpr const char* called = R"([{"role": "user", "content": "q"},
  {"role": "assistant", "content": "", "tool_calls": [
    {"id": "f:0", "type": "function", "function": {"name": "f", "arguments": {"where": "Zürich", "days": 2}}}]},
  {"role": "tool", "tool_call_id": "f:0", "content": "grau"}])";

std::string rendered(const char* source, const chat_request& request) {
  return chat_template(shared_processes(), source, {{"bos_token", "<b>"}, {"eos_token", "<e>"}})
      .render(request);
}

// gpt-oss: a macro that calls itself, strftime_now, members of a namespace, `is defined`, `default`, `upper`.
TEST(family_template, writes_a_schema_by_recursion) {
  const char* source = R"({%- macro type_of(spec) -%}
  {%- if spec.type == "array" -%}
    {{- type_of(spec["items"]) + "[]" }}
  {%- elif spec.enum is defined and spec.enum is iterable and spec.enum is not string -%}
    {{- '"' + spec.enum | join('" | "') + '"' }}
  {%- elif spec.type == "object" -%}
    {{- "{" }}
    {%- for name, inner in spec.properties.items() -%}
      {{- name + ": " + type_of(inner) }}{{ ", " if not loop.last }}
    {%- endfor -%}
    {{- "}" }}
  {%- else -%}
    {{- spec.type | default("any") }}
  {%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(tools=0) -%}
{{- strftime_now("%Y-%m-%d") | length }} {{ (reasoning_effort if reasoning_effort is defined else "medium") | upper }}
{%- for tool in tools | default([], true) %}{% set ns.tools = ns.tools + 1 %}
type {{ tool.function.name }} = (_: {{ type_of(tool.function.parameters) }});
{% endfor %}
{{- ns.tools }})";
  EXPECT_EQ(
      rendered(source, {.messages = "[]", .tools = weather, .extra = R"({"reasoning_effort": "high"})"}),
      "10 HIGHtype f = (_: {where: string[], unit: \"C\" | \"F\"});\n1");
  EXPECT_EQ(rendered(source, {.messages = "[]"}), "10 MEDIUM0");
}

// Kimi-K2: tojson's keyword arguments, get of a message, slices, a loop that ends early.
TEST(family_template, writes_json_as_it_asks_for) {
  const char* source = R"({%- if tools -%}{{ tools | tojson(separators=(',', ':')) }}|{%- endif -%}
{%- set ns = namespace(last=-1) -%}
{%- for i in range(messages | length - 1, -1, -1) -%}
  {%- if messages[i]['role'] == 'assistant' and not messages[i].get('tool_calls') -%}
    {%- set ns.last = i -%}
    {%- break -%}
  {%- endif -%}
{%- endfor -%}
{%- for m in messages[:ns.last + 1] -%}old {{ m.get('name') or m['role'] }};{%- endfor -%}
{%- for m in messages[ns.last + 1:] -%}
  {%- if m.role == 'system' -%}{%- continue -%}{%- endif -%}
new {{ m['role'] }}{% for c in m.get('tool_calls', []) %} {{ c['id'] }}{{ c['function']['arguments'] | tojson }}{% endfor %};
{%- endfor -%})";
  EXPECT_EQ(rendered(source, {.messages = called, .tools = R"([{"b": "ü<", "a": 1.0}])"}),
            R"([{"b":"ü<","a":1.0}]|new user;new assistant f:0{"where": "Zürich", "days": 2};new tool;)");
  EXPECT_EQ(rendered(source, {.messages = R"([{"role": "user", "content": "q", "name": "ann"},
                                              {"role": "assistant", "content": "a"},
                                              {"role": "system", "content": "s"}, {"role": "user", "content": "q"}])"}),
            "old ann;old assistant;new user;");
}

// GLM-4.5: ensure_ascii, methods of strings, a macro for contents in both forms, arguments as an object.
TEST(family_template, takes_texts_apart) {
  const char* source = R"([gMASK]<sop>
{%- macro visible_text(content) -%}
  {%- if content is string -%}
    {{- content }}
  {%- elif content is iterable and content is not mapping -%}
    {%- for item in content -%}{{ item.text if item is mapping and item.type == 'text' else '' }}{%- endfor -%}
  {%- endif -%}
{%- endmacro -%}
{% for m in messages %}
{%- if m.role == 'user' %}
<|user|>
{{ visible_text(m.content) }}{{ '/nothink' if enable_thinking is defined and not enable_thinking and not visible_text(m.content).endswith('/nothink') else '' }}
{%- elif m.role == 'assistant' %}
{% set content = visible_text(m.content) %}
{% if '</think>' in content %}
{% set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
{% set content = content.split('</think>')[-1].lstrip('\n') %}
{% endif %}
<|assistant|>{{ '<think>' + thought + '</think>' if thought is defined }}{{ content.strip() }}
{%- for tc in m.tool_calls or [] %}
{% set tc = tc.function if tc.function else tc %}
<tool_call>{{ tc.name }}
{% for k, v in (tc.arguments or {}).items() %}
<arg_key>{{ k }}</arg_key><arg_value>{{ v | tojson(ensure_ascii=True) if v is not string else v }}</arg_value>
{% endfor %}
</tool_call>
{%- endfor %}
{%- endif %}
{% endfor %})";
  EXPECT_EQ(rendered(source, {.messages = called}),
            "[gMASK]<sop><|user|>\nq<|assistant|>"
            "<tool_call>f\n<arg_key>where</arg_key><arg_value>Zürich</arg_value>\n"
            "<arg_key>days</arg_key><arg_value>2</arg_value>\n</tool_call>");
  EXPECT_EQ(
      rendered(source, {.messages = R"([{"role": "user", "content": [{"type": "text", "text": "a/nothink"}]},
                                              {"role": "assistant", "content": "<think>\nhm\n</think>\n\n b "},
                                              {"role": "user", "content": "c"}])",
                        .extra = R"({"enable_thinking": false})"}),
      "[gMASK]<sop><|user|>\na/nothink<|assistant|><think>hm</think>b<|user|>\nc/nothink");
}

// MiniMax-M2: `~`, the filters items and string, raise_exception, a member of the last call.
TEST(family_template, keeps_what_was_called_in_a_namespace) {
  const char* source = R"({%- set last = namespace(name=none) -%}
{%- for m in messages -%}
  {%- if m.role == 'assistant' -%}
    {{- ']~b]ai' ~ '\n' }}
    {%- for call in m.tool_calls or [] -%}
      {{- '<invoke name="' + call.function.name + '">' }}
      {%- for k, v in call.function.arguments | items -%}
        {{- k ~ '=' ~ (v | tojson | string if v is not string else v) ~ ';' }}
      {%- endfor -%}
    {%- endfor -%}
    {%- set last.name = m.tool_calls[-1].function.name if m.tool_calls else none -%}
  {%- elif m.role == 'tool' -%}
    {%- if last.name is none -%}
      {{- raise_exception("no call came before") }}
    {%- endif -%}
    {{- last.name ~ ': ' ~ m.content }}
  {%- endif -%}
{%- endfor -%})";
  EXPECT_EQ(rendered(source, {.messages = called}), "]~b]ai\n<invoke name=\"f\">where=Zürich;days=2;f: grau");
  EXPECT_THAT([&] { rendered(source, {.messages = R"([{"role": "tool", "content": "x"}])"}); },
              testing::ThrowsMessage<template_error>("no call came before"));
}

// DeepSeek-V3 joins arguments with texts, and knows an answer that calls tools by its missing content.
TEST(family_template, gets_calls_in_the_form_that_it_writes) {
  const char* joins = R"({%- for m in messages -%}
  {%- if m.role == 'assistant' and m.tool_calls is defined and m.tool_calls is not none -%}
    {%- for c in m['tool_calls'] -%}{{ '<call>' + c['function']['name'] + '<sep>' + c['function']['arguments'] }}{%- endfor -%}
  {%- else -%}{{ m.content }}{%- endif -%}
{%- endfor -%})";
  EXPECT_EQ(rendered(joins, {.messages = called}), R"(q<call>f<sep>{"where": "Zürich", "days": 2}grau)");
  const char* of_none = R"({%- for m in messages -%}
  {%- if m['role'] == 'assistant' and m['content'] is none -%}
    {%- for c in m['tool_calls'] -%}{{ '<call>' + c['type'] + '<sep>' + c['function']['arguments'] }}{%- endfor -%}
  {%- else -%}{{ '<text>' + m['content'] }}{%- endif -%}
{%- endfor -%})";
  EXPECT_EQ(rendered(of_none, {.messages = called}),
            R"(<text>q<call>function<sep>{"where": "Zürich", "days": 2}<text>grau)");
  // Python's form of an object is nobody's.
  const char* writes = "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments }}{% "
                       "endfor %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(rendered(writes, {.messages = called}), R"(q{"where": "Zürich", "days": 2}grau)");
}

// Granite: documents, filters over lists, the role and the date in a sentence. Llama 4: trim, `is string`.
TEST(family_template, writes_documents_and_trims) {
  const char* source = R"({{ bos_token }}
{%- set system = messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | list %}
{%- if documents %}
{%- for d in documents %}<doc {{ d.get('doc_id', loop.index) }}>{{ d['text'] | trim }}{%- endfor %}
{%- endif %}
{%- for m in messages | rejectattr('role', 'equalto', 'system') %}
{%- generation %}<|{{ m.role | capitalize }}|>{{ m.content | trim }}{{ eos_token }}{% endgeneration %}
{%- endfor %}{{ system | first | default('none', true) }})";
  EXPECT_EQ(
      rendered(source,
               {.messages = R"([{"role": "system", "content": "be"}, {"role": "user", "content": " hi "}])",
                .extra = R"({"documents": [{"text": " a "}, {"doc_id": 7, "text": "b"}]})"}),
      "<b><doc 1>a<doc 7>b<|User|>hi<e>be");
}

} // namespace

} // namespace troupe::text
