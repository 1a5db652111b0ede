#!/usr/bin/env python3
"""Writes catalog.json from two public sources, which it downloads from PyPI:

- the model profiles in LangChain's provider packages, derived from models.dev: limits, modalities, abilities
- the price table in the package litellm: prices, and limits of models without a profile

Both are published under the MIT license. Run it in this directory: python3 generate.py
"""
import datetime, json, pathlib, runpy, subprocess, sys, tempfile, zipfile

PROFILES = {"openai": "langchain-openai==1.7.3", "anthropic": "langchain-anthropic==1.7.7", "gemini": "langchain-google-genai==4.4.2", "bedrock_converse": "langchain-aws==1.9.1"}
PRICES = "litellm==1.109.1"
MODALITIES = ["text", "image", "audio", "video", "pdf"]


def download(folder, requirement):
    subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", folder, requirement], check=True)
    name = requirement.split("==")[0].replace("-", "_")
    return zipfile.ZipFile(next(pathlib.Path(folder).glob(f"{name}-*.whl")))


def profiles(folder, requirement):
    wheel = download(folder, requirement)
    name = next(n for n in wheel.namelist() if n.endswith("/data/_profiles.py"))
    return runpy.run_path(wheel.extract(name, folder))["_PROFILES"]


def prices(folder):
    wheel = download(folder, PRICES)
    return json.loads(wheel.read("litellm/model_prices_and_context_window_backup.json"))


def million(cost):
    return None if cost is None else float(f"{cost * 1e6:.6g}")


def price(row, suffix=""):
    p = {
        "input": million(row.get("input_cost_per_token" + suffix)),
        "output": million(row.get("output_cost_per_token" + suffix)),
        "cache_read": million(row.get("cache_read_input_token_cost" + suffix)),
        "cache_creation": million(row.get("cache_creation_input_token_cost" + suffix)),
    }
    if p["input"] is None or p["output"] is None:
        return None
    return {k: v for k, v in p.items() if v is not None}


def whole_price(row):
    p = price(row)
    above = [k for k in row if k.startswith("input_cost_per_token_above_") and k.endswith("k_tokens")]
    if p and above:
        limit = above[0].removeprefix("input_cost_per_token_above_").removesuffix("k_tokens")
        if long := price(row, f"_above_{limit}k_tokens"):
            p["long"] = {"above": int(limit) * 1000, **long}
    return p


def entry(profile, row):
    e = {
        "window": profile.get("max_input_tokens") or row.get("max_input_tokens"),
        "max_output": profile.get("max_output_tokens") or row.get("max_output_tokens"),
        "inputs": [m for m in MODALITIES if profile.get(m + "_inputs")],
        "outputs": [m for m in MODALITIES if profile.get(m + "_outputs")],
        "reasoning": profile.get("reasoning_output") or row.get("supports_reasoning"),
        "efforts": profile.get("reasoning_effort_levels"),
        "no_tools": profile.get("tool_calling") is False,
        "no_tool_choice": profile.get("tool_choice") is False,
        "no_temperature": profile.get("temperature") is False,
        "retired": row.get("deprecation_date"),
        "price": whole_price(row),
    }
    return {k: v for k, v in e.items() if v}


def main():
    models = {}
    with tempfile.TemporaryDirectory() as folder:
        rows = prices(folder)
        for provider, requirement in PROFILES.items():
            known = profiles(folder, requirement)
            priced = {n.removeprefix("gemini/"): r for n, r in rows.items() if r.get("litellm_provider") == provider and r.get("mode") in ("chat", "responses")}
            for name in sorted(known.keys() | priced.keys()):
                profile = known.get(name, {})
                if "/" in name or (profile and not profile.get("text_outputs")) or "embedding" in name:
                    continue
                models[name] = entry(profile, priced.get(name, {}))
    lines = ",\n".join(f"    {json.dumps(n)}: {json.dumps(m, separators=(',', ':'))}" for n, m in sorted(models.items()) if "window" in m or "price" in m)
    source = ", ".join([*PROFILES.values(), PRICES])
    pathlib.Path("catalog.json").write_text(f'{{\n  "date": "{datetime.date.today()}",\n  "source": "{source}",\n  "models": {{\n{lines}\n  }}\n}}\n')


main()
