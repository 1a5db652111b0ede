"""Writes openapi.json: the request types in OpenAI's published description of its API.

Usage: python3 reduce.py FILE COMMIT, where FILE is openapi.json of that commit of
github.com/openai/openai-openapi (MIT License).
"""

import json
import sys

ROOTS = ["CreateResponse", "CreateChatCompletionRequest", "CreateEmbeddingRequest"]
PLAIN = {"type", "required", "enum", "const", "minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum", "pattern"}


def reduce(schema, part=False):
    """Returns a schema as JSON Schema, without descriptions.

    Objects must not have other properties, unless the schema is part of an allOf.
    """
    if isinstance(schema, bool):
        return schema
    out = {}
    for key, value in schema.items():
        if key in PLAIN:
            out[key] = value
        elif key == "properties":
            out[key] = {name: reduce(s) for name, s in value.items()}
        elif key in ("anyOf", "oneOf"):  # the types of oneOf overlap
            out["anyOf"] = [reduce(s) for s in value]
        elif key == "allOf":
            out[key] = [reduce(s, True) for s in value]
        elif key in ("items", "additionalProperties"):
            out[key] = reduce(value)
        elif key == "$ref":
            out[key] = value.replace("#/components/schemas/", "#/$defs/")
    if "required" in out and "properties" in out:  # some required properties do not exist
        out["required"] = [name for name in out["required"] if name in out["properties"]]
    if not part and "allOf" in out:
        out["unevaluatedProperties"] = False
    elif not part and "properties" in out:
        out.setdefault("additionalProperties", False)
    if schema.get("nullable"):
        out = {"anyOf": [out, {"type": "null"}]}
    return out


def references(value):
    """Yields the names of the types that a schema refers to."""
    if isinstance(value, dict):
        for key, v in value.items():
            if key == "$ref":
                yield v.rpartition("/")[2]
            else:
                yield from references(v)
    elif isinstance(value, list):
        for v in value:
            yield from references(v)


def main():
    file, commit = sys.argv[1:]
    with open(file) as f:
        schemas = json.load(f)["components"]["schemas"]
    parts = set(references([s.get("allOf") for s in schemas.values()])).difference(ROOTS)
    defs, names = {}, list(ROOTS)
    while names:
        name = names.pop()
        if name not in defs:
            defs[name] = reduce(schemas[name], name in parts)
            names += references(defs[name])
    with open("openapi.json", "w") as f:  # one line for each type
        source = f"request types of openapi.json in github.com/openai/openai-openapi at {commit}, by reduce.py"
        f.write('{"$comment": ' + json.dumps(source) + ',\n"$defs": {\n')
        f.write(",\n".join(json.dumps(n) + ": " + json.dumps(defs[n], separators=(",", ":")) for n in sorted(defs)))
        f.write("\n}}\n")


main()
