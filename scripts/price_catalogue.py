#!/usr/bin/env python3
"""Generates crates/prices/src/catalogue.json from the data of the package `genai-prices` (MIT), of which facts alone are taken.

    pip install genai-prices && python3 scripts/price_catalogue.py

Run it before a release. Models without a price of tokens, prices for batches and prices of the past are left out. Where a price depends on the
time of day, the highest is taken: a budget then holds at any time.
"""

from __future__ import annotations

import argparse
import json
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices.data import providers

OUTPUT = Path(__file__).resolve().parent.parent / "crates/prices/src/catalogue.json"

# The hosts of the providers that are reached with an API that the gateway speaks.
HOSTS: dict[str, list[str]] = {
    "openai": ["api.openai.com"],
    "anthropic": ["api.anthropic.com"],
    "google": ["googleapis.com"],
    "azure": ["openai.azure.com", "azure-api.net", "cognitiveservices.azure.com", "services.ai.azure.com"],
    "avian": ["api.avian.io"],
    "baseten": ["inference.baseten.co"],
    "cerebras": ["api.cerebras.ai"],
    "cohere": ["api.cohere.ai", "api.cohere.com"],
    "deepseek": ["api.deepseek.com"],
    "fireworks": ["api.fireworks.ai"],
    "groq": ["api.groq.com"],
    "meta": ["api.meta.ai"],
    "minimax": ["api.minimax.com", "api.minimax.io", "api.minimaxi.com", "api.minimaxi.io"],
    "mistral": ["api.mistral.ai"],
    "moonshotai": ["api.moonshot.ai", "api.moonshot.cn"],
    "novita": ["api.novita.ai"],
    "openrouter": ["openrouter.ai"],
    "ovhcloud": ["oai.endpoints.kepler.ai.cloud.ovh.net"],
    "perplexity": ["api.perplexity.ai"],
    "together": ["api.together.xyz", "api.together.ai"],
    "voyageai": ["api.voyageai.com"],
    "x-ai": ["api.x.ai"],
    "zai": ["api.z.ai"],
    "zhipuai": ["open.bigmodel.cn"],
}

# The fields of `[[prices]]`, by the names of the package.
FIELDS = {
    "input_mtok": "input",
    "cache_read_mtok": "cached_input",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "input_audio_mtok": "input_audio",
    "input_image_mtok": "input_image",
    "output_mtok": "output",
    "output_reasoning_mtok": "reasoning",
    "output_audio_mtok": "output_audio",
    "output_image_mtok": "output_image",
    "web_searches_kcount": "search",
}

NOT_TTS = r"^(?!.*-[tT][tT][sS](?:$|-))"
DATED = re.compile(r"^\^(?P<name>(?:[a-z0-9/\-]|\\\.)+?)(?:-|\[-@\])\\d(?:\{\d\}(?:-\\d\{2\}-\\d\{2\})?\$)?$")


def patterns(clause: Any) -> list[str]:
    """The alternatives of a clause: `=` equals, `^` starts with, `$` ends with, `*` contains, `#` is followed by a date; `!` contains not."""
    kind = type(clause).__name__
    if kind == "ClauseOr":
        return [pattern for part in clause.or_ for pattern in patterns(part)]
    if kind == "ClauseAnd":
        first, second = clause.and_
        if type(second).__name__ == "ClauseRegex" and second.regex == NOT_TTS:
            return [f"{pattern}!-tts" for pattern in patterns(first)]
    if kind == "ClauseRegex" and (dated := DATED.match(clause.regex)):
        return ["#" + dated["name"].replace("\\", "")]
    for sign, name in {"=": "equals", "^": "starts_with", "$": "ends_with", "*": "contains"}.items():
        if kind == "Clause" + name.title().replace("_", ""):
            return [sign + getattr(clause, name)]
    raise ValueError(f"unknown clause: {clause}")


def fields_of(price: Any) -> dict[str, Any]:
    """The prices that are set."""
    return {name: value for name, value in price.__dict__.items() if not name.startswith("_") and value is not None}


def current(prices: Any, now: datetime) -> dict[str, Any]:
    """The prices that hold now: the last ones that have begun. Of those that hold at some times of a day, the highest."""
    if not isinstance(prices, list):
        return fields_of(prices)
    standard: dict[str, Any] = fields_of(prices[0].prices)
    for one in prices:
        kind = type(one.constraint).__name__
        if kind == "NoneType" or kind == "StartDateConstraint" and one.constraint.active(now):
            standard = fields_of(one.prices)
        elif kind == "TimeOfDateConstraint":
            for name, value in fields_of(one.prices).items():
                standard[name] = max(standard.get(name, value), value, key=lambda price: at(price, 0))
    return standard


def at(price: Any, tokens: int) -> float:
    """The price of a prompt of more than this number of tokens."""
    tiers = getattr(price, "tiers", [])
    fitting = [tier.price for tier in tiers if tier.start <= tokens and tokens > 0]
    return float(fitting[-1] if fitting else getattr(price, "base", price))


def entries(model: Any, now: datetime) -> list[dict[str, Any]]:
    """The prices of a model in the form of `[[prices]]`."""
    standard = current(model.prices, now)
    contexts: dict[str, dict[str, Any]] = {"": standard}
    for variant in model.price_variants or []:
        if variant.constraint is not None and not variant.constraint.active(now):
            continue
        # Anthropic's `speed` is read as a tier
        tier = variant.when.get("service_tier") or variant.when.get("speed")
        if tier is None or len(variant.when) > 1:
            continue
        contexts[tier] = {**contexts.get(tier, standard), **fields_of(variant.prices)}
    found = []
    for tier, prices in contexts.items():
        starts = {0} | {step.start for price in prices.values() for step in getattr(price, "tiers", [])}
        for start in sorted(starts):
            entry: dict[str, Any] = {"model": model.id}
            if tier:
                entry["service_tier"] = tier
            if start:
                entry["above_tokens"] = start
            for name, field in FIELDS.items():
                if name in prices:
                    price = at(prices[name], start)
                    entry[field] = price / 1000 if field == "search" else price
            if "input" not in entry and "output" not in entry:
                continue
            entry.setdefault("input", 0.0)
            entry.setdefault("output", 0.0)
            # where no price of a write is named, writes are charged as other tokens
            entry.setdefault("cache_write", entry["input"])
            entry.setdefault("cache_write_1h", max(entry["cache_write"], entry["input"]))
            if model.context_window:
                entry["context_tokens"] = model.context_window
            found.append(entry)
    plain = [entry for entry in found if "service_tier" not in entry]
    # a tier at the standard price needs no entry
    without_tier = [{name: value for name, value in entry.items() if name != "service_tier"} for entry in found]
    return plain + [entry for entry, same in zip(found, without_tier) if "service_tier" in entry and same not in plain]


def main() -> None:
    """Writes the file."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    now = datetime.now(UTC)
    by_id = {provider.id: provider for provider in providers}
    written = []
    for name, hosts in HOSTS.items():
        provider = by_id[name]
        models = []
        for model in provider.models:
            prices = entries(model, now)
            # a model without a price of tokens may still be the first whose pattern fits
            models.append({"patterns": patterns(model.match), "prices": prices})
        others = [other for other in provider.fallback_model_providers or [] if other in HOSTS]
        written.append({"id": name, "hosts": hosts, "others": others, "models": models})
    head = {"source": f"genai-prices {version('genai-prices')}", "date": now.date().isoformat()}
    lines = [json.dumps(head)[:-1] + ', "providers": [']
    for number, provider in enumerate(written):
        models = provider.pop("models")
        lines.append(json.dumps(provider)[:-1] + ', "models": [')
        lines.append(",\n".join(json.dumps(model) for model in models))
        lines.append("]}," if number + 1 < len(written) else "]}")
    lines.append("]}")
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    count = sum(len(provider.models) for provider in providers if provider.id in HOSTS)
    print(f"{OUTPUT.name}: {count} models of {len(written)} providers")


if __name__ == "__main__":
    main()
