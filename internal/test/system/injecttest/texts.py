"""Prints the goals and attacks of AgentDojo as JSON. It reads the source of the package and does not import it."""

import ast
import json
import pathlib
import sysconfig

root = pathlib.Path(sysconfig.get_path("purelib")) / "agentdojo"


def constants(body, known):
    """Returns the strings that are assigned in a module or class."""
    found = dict(known)
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = string(node.value, found)
            if text is not None:
                found[node.targets[0].id] = text
    return found


def string(node, known):
    """Evaluates a string or an f-string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.JoinedStr):
        return "".join(string(v.value if isinstance(v, ast.FormattedValue) else v, known) or "" for v in node.values)
    return None


def classes(path):
    module = ast.parse(path.read_text())
    known = constants(module.body, {})
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield node, constants(node.body, known)


def functions(node):
    """Returns the tools that reach the goal of a task."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "FunctionCall":
            for arg in call.keywords:
                if arg.arg == "function" and isinstance(arg.value, ast.Constant):
                    yield arg.value.value


goals = {}
for path in sorted(root.glob("default_suites/*/*/injection_tasks.py")):  # newer versions replace older ones
    for node, known in classes(path):
        if "GOAL" in known:
            goals[path.parent.name, node.name] = {"text": known["GOAL"], "functions": sorted(set(functions(node)))}

attacks = {}
for path in sorted(root.glob("attacks/[!b]*_attacks.py")) + [root / "attacks/baseline_attacks.py"]:
    for node, known in classes(path):
        for call in ast.walk(node):
            if isinstance(call, ast.Constant) and isinstance(call.value, str) and "{goal}" in call.value:
                attacks[known.get("name", node.name)] = call.value
        for name in "_JB_STRING", "_DOS_STRING":
            if name in known:
                attacks[known.get("name", node.name)] = known[name]

print(json.dumps({"goals": list(goals.values()), "attacks": attacks}))
