"""The Jinja environment and the variables that transformers' apply_chat_template gives to chat templates.

Runs inside a template process (main.cpp): every outcome is a pair of kind and text. Kinds: "prompt", "request"
(the conversation is refused), "template" (the template itself is not valid), "valid".
"""

import datetime
import functools
import importlib
import json
import warnings

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

# What Jinja2 and Python would import when a template first needs it: by then no file can be opened.
for name in (
    "jinja2.constants", "jinja2.debug", "pprint", "textwrap", "traceback", "unicodedata", "encodings.ascii", "encodings.cp1252",
    "encodings.latin_1", "encodings.raw_unicode_escape", "encodings.unicode_escape", "encodings.utf_16", "encodings.utf_32",
):
    importlib.import_module(name)
warnings.simplefilter("ignore")  # a warning would read the template's source from a file


class Generation(jinja2.ext.Extension):
    """{% generation %} … {% endgeneration %} marks what the assistant wrote, for training; here its body counts."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Refused(jinja2.exceptions.TemplateError):
    """What a template's raise_exception raises: its text is meant for the caller."""


def raise_exception(message):
    raise Refused(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    # Jinja's own escapes HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.now().strftime(form)


environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
)
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = strftime_now

# By their source, those that are to be kept: the model's own. One that comes with a request is compiled for it alone.
kept = {}

PROBE = "troupe7probe"
PROBE_TOOL = {
    "type": "function",
    "function": {"name": PROBE, "description": "d", "parameters": {"type": "object", "properties": {}, "required": []}},
}


def parts_of(text):
    return [{"type": "text", "text": text}] if text else []


class Template:
    """A compiled template, and what it takes, which is found out by rendering probes: what it takes comes out."""

    def __init__(self, compiled_template, variables):
        self.render = compiled_template.render
        self.variables = variables

    def writes(self, *messages, tools=None):
        try:
            prompt = self.render(
                {"messages": list(messages), "tools": tools, "documents": None, "add_generation_prompt": True, **self.variables}
            )
        except Exception:  # also Refused, MemoryError and RecursionError
            return False
        # A list that is written as a whole has Python's or JSON's quotes around the text, an object Python's.
        return PROBE in prompt and not any(f"{key}{PROBE}" in prompt for key in ("'text': '", '"text": "', "'argument': '"))

    def content(self, text):
        return text if self.takes_text or not self.takes_parts else parts_of(text)

    @functools.cached_property
    def takes_text(self):
        return self.writes({"role": "user", "content": PROBE})

    @functools.cached_property
    def takes_parts(self):
        return self.writes({"role": "user", "content": parts_of(PROBE)})

    def takes_role(self, role):
        return self.writes({"role": role, "content": self.content(PROBE)}, {"role": "user", "content": self.content("q")})

    @functools.cached_property
    def takes_developer(self):
        return self.takes_role("developer")

    @functools.cached_property
    def call_form(self):
        """The content (if it has no text) and whether the arguments are text, with which an answer that calls a tool
        comes out. DeepSeek's templates take None and text."""
        for content in ("", None):
            for as_text in (False, True):
                arguments = {"argument": PROBE}
                function = {"name": "f", "arguments": json.dumps(arguments) if as_text else arguments}
                call = {"id": "troupe001", "type": "function", "function": function}
                answer = {"role": "assistant", "content": content, "tool_calls": [call]}
                if self.writes({"role": "user", "content": self.content("q")}, answer):
                    return content, as_text
        return "", False

    def call_for_template(self, call):
        """The call of a tool, with its arguments as the template takes them. They come as objects."""
        _, as_text = self.call_form
        if not as_text or not isinstance(call, dict) or not isinstance(call.get("function"), dict):
            return call
        function = dict(call["function"])
        if isinstance(function.get("arguments"), dict):
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
        return {**call, "function": function}

    def adapted(self, messages):
        """The messages in the form that the template takes. Contents come as strings and as lists of text parts."""
        out = []
        for message in messages:
            if isinstance(message, dict):
                message = dict(message)
                if message.get("role") == "developer" and not self.takes_developer:
                    message["role"] = "system"  # which OpenAI's newer models call developer
                content = message.get("content")
                if isinstance(content, str):
                    message["content"] = self.content(content)
                elif isinstance(content, list) and not self.takes_parts:
                    message["content"] = "\n".join(part["text"] for part in content)
                if isinstance(message.get("tool_calls"), list) and message["tool_calls"]:
                    if self.call_form[0] is None:
                        message["content"] = message.get("content") or None
                    message["tool_calls"] = [self.call_for_template(call) for call in message["tool_calls"]]
            out.append(message)
        return out

    def flaws(self):
        """What is lost on the way to the prompt, a line each."""
        if not (self.takes_text or self.takes_parts):
            yield "it writes no user's text into the prompt, neither as a string nor as a list of parts"
            return
        if not self.takes_role("system"):
            yield "it has no place for the role 'system'"
        if not self.writes({"role": "user", "content": self.content("q")}, tools=[PROBE_TOOL]):
            yield "it has no place for 'tools'"


def parse(name, text, kind):
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{name}: not valid JSON: {error}") from None
    if not isinstance(value, kind):
        raise Refused(f"{name}: {'an array' if kind is list else 'an object'} is expected")
    return value


OUT_OF_MEMORY = "it takes more memory than chat templates may have"


def one_line(error):
    return f"{type(error).__name__}: {error}"


def compiled(source, variables):
    """The template and None; or None and what is wrong with the template itself, with its line where there is one."""
    if source in kept:
        return kept[source], None
    try:
        return Template(environment.from_string(source), json.loads(variables)), None
    except jinja2.exceptions.TemplateSyntaxError as error:
        return None, f"line {error.lineno}: {error.message}"
    except MemoryError:
        return None, OUT_OF_MEMORY
    except Exception as error:
        return None, one_line(error)


def check(source, variables):
    template, flaw = compiled(source, variables)
    if flaw is not None:
        return "template", flaw
    kept[source] = template
    return "valid", ""


def probe(source, variables):
    template, flaw = compiled(source, variables)
    if flaw is not None:
        return "template", flaw
    return "valid", "\n".join(template.flaws())


def render(source, keep, messages, tools, variables, extra, add_generation_prompt, longest):
    template, flaw = compiled(source, variables)
    if flaw is not None:
        return "template", flaw
    if keep:
        kept[source] = template
    try:
        given = {
            "messages": template.adapted(parse("messages", messages, list)),
            "tools": None if tools in ("", "null") else parse("tools", tools, list),
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        if given["tools"] == []:
            given["tools"] = None
        chosen = {**template.variables, **(parse("chat_template_kwargs", extra, dict) if extra else {})}
        for name in ("messages", "tools", "add_generation_prompt"):
            if name in chosen:
                raise Refused(f"chat_template_kwargs: '{name}' has its own place in the request")
        prompt = template.render({**given, **chosen})
        # Before it is encoded, which takes its room once more.
        prompt = prompt.encode("utf-8") if len(prompt) <= longest else None
        if prompt is None or len(prompt) > longest:
            return "request", f"the rendered prompt is over {longest >> 20} MiB"
        return "prompt", prompt
    except Refused as error:
        return "request", str(error)
    except UnicodeEncodeError:
        return "request", "the conversation has half of a surrogate pair, which is no character"
    except MemoryError:
        return "request", OUT_OF_MEMORY
    except Exception as error:
        return "request", one_line(error)


# The time zone and the codec of error messages are read now, while files can be.
assert render("{{ strftime_now('%Y') }}{{ messages | tojson }}", False, "[]", "", "{}", "", True, 99)[0] == "prompt"
