#!/usr/bin/python3
"""Writes the golden files of the chat template tests: what Debian's python3-jinja2 makes of the conversations in
chats/conversations.json with the templates of published models, set up as transformers' apply_chat_template does.

  make_chats.py CACHE          checks the committed goldens
  make_chats.py CACHE --write  writes them anew

CACHE is where fetch.sh put the models' files. The templates themselves are not committed.
"""

import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).resolve().parent


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: f"<strftime_now({form})>"  # the test puts the date there
    return env


def as_taken(messages, form):
    """Messages with calls of tools in one of the forms that templates take: no content, arguments as text."""
    out = []
    for message in messages:
        if message.get("tool_calls"):
            message = dict(message)
            if form["no content"] and message.get("content") == "":
                message["content"] = None
            if form["text"]:
                message["tool_calls"] = json.loads(json.dumps(message["tool_calls"]))
                for call in message["tool_calls"]:
                    if isinstance(call["function"]["arguments"], dict):
                        call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
        out.append(message)
    return out


def render(template, messages, rest):
    """The prompt; of the forms of calls, the first that writes a call whole."""
    if not any(message.get("tool_calls") for message in messages):
        return template.render(messages=messages, **rest)
    first = None
    for no_content in (False, True):
        for text in (False, True):
            try:
                prompt = template.render(messages=as_taken(messages, {"no content": no_content, "text": text}), **rest)
            except Exception as error:
                prompt = error
            first = first or prompt
            if isinstance(prompt, str) and "Zürich" in prompt.split("Weather in Zürich?", 1)[1] and "{'place'" not in prompt:
                return prompt
    if isinstance(first, Exception):
        raise first
    return first


def content(token):
    return token["content"] if isinstance(token, dict) else token


def goldens(config):
    templates = config["chat_template"]
    if isinstance(templates, str):
        templates = {"default": templates}
    else:
        templates = {t["name"]: t["template"] for t in templates}
    special = {
        name: content(config[name])
        for name in config
        if name.endswith("_token") and isinstance(config[name], (str, dict))
    }
    if config.get("additional_special_tokens"):
        special["additional_special_tokens"] = [content(t) for t in config["additional_special_tokens"]]
    for conversation in json.loads((HERE / "chats/conversations.json").read_text()):
        tools = conversation.get("tools")
        source = templates["tool_use"] if tools and "tool_use" in templates else templates["default"]
        try:
            rest = {
                "tools": tools,
                "documents": None,
                "add_generation_prompt": conversation.get("add_generation_prompt", True),
                **special,
                **conversation.get("extra", {}),
            }
            prompt = render(environment().from_string(source), conversation["messages"], rest)
            yield {"name": conversation["name"], "prompt": prompt}
        except jinja2.exceptions.UndefinedError:
            yield {"name": conversation["name"], "refused": None}
        except jinja2.exceptions.TemplateError as error:
            yield {"name": conversation["name"], "refused": str(error)}
        except Exception:  # any failure of a template: that it fails is golden, the text is Python's
            yield {"name": conversation["name"], "refused": None}


def main():
    cache = pathlib.Path(sys.argv[1])
    write = sys.argv[2:] == ["--write"]
    families = 0
    names = [*json.loads((HERE / "vocabularies.json").read_text()), *json.loads((HERE / "chats/templates.json").read_text())["templates"]]
    for name in names:
        config = json.loads((cache / name / "tokenizer_config.json").read_text())
        if "chat_template" not in config:
            continue
        families += 1
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in goldens(config))
        file = HERE / "chats" / f"{name}.jsonl"
        if write:
            file.write_text(text)
        elif file.read_text() != text:
            sys.exit(f"make_chats.py: {file} differs from what Jinja2 {jinja2.__version__} gives")
    print(f"make_chats.py: {families} templates {'written' if write else 'checked'} (Jinja2 {jinja2.__version__})")


if __name__ == "__main__":
    main()
