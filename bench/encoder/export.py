"""Makes the models of the peers from the model's folder: ONNX in f32, fused, and in int8; OpenVINO in int8.

    python bench/encoder/export.py --model models/all-MiniLM-L6-v2 --out .cache/bench-encoder/models

What is already there is kept. Every graph takes ids to the pooled unit vector, so that an engine does all of the work.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import cases  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: E402
from onnxruntime.transformers.fusion_options import FusionOptions  # noqa: E402
from onnxruntime.transformers.optimizer import optimize_model  # noqa: E402
from peers import INPUTS, OUTPUT  # noqa: E402

OPSET = 17
CALIBRATION_TEXTS = 120
# Graph optimisations of ONNX Runtime itself that are applied before the fusion: 1 is "basic".
RUNTIME_LEVEL = 1


class Embedder(torch.nn.Module):
    """The encoder with mean pooling and normalisation."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        from transformers import AutoModel

        # Eager attention: the products and the softmax stay visible, as the fusion wants to find them.
        self.encoder = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """Ids to unit vectors."""
        hidden = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=-1)


def has_vnni() -> bool:
    """Whether the processor multiplies bytes without the saturation that AVX2's instruction has."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return "avx512_vnni" in flags or "avx_vnni" in flags


def export_plain(folder: Path, out: Path) -> None:
    """The graph as PyTorch traces it."""
    ids = torch.ones((2, 16), dtype=torch.int64)
    axes = {name: {0: "batch", 1: "tokens"} for name in INPUTS} | {OUTPUT: {0: "batch"}}
    torch.onnx.export(
        Embedder(folder),
        (ids, ids, ids * 0),
        str(out),
        input_names=list(INPUTS),
        output_names=[OUTPUT],
        dynamic_axes=axes,
        opset_version=OPSET,
        dynamo=False,
    )


def fuse(folder: Path, plain: Path, out: Path) -> dict[str, int]:
    """The optimiser's fusion for BERT. Returns how often each fused operation stands in the graph."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    options = FusionOptions("bert")
    model = optimize_model(
        str(plain),
        model_type="bert",
        num_heads=config["num_attention_heads"],
        hidden_size=config["hidden_size"],
        optimization_options=options,
        opt_level=RUNTIME_LEVEL,
    )
    model.save_model_to_file(str(out))
    return {name: count for name, count in model.get_fused_operator_statistics().items() if count}


def quantise(fused: Path, out: Path) -> None:
    """Dynamic int8 with a scale for each output channel."""
    # Without VNNI eight-bit weights overflow in the instruction that ONNX Runtime uses; its guide asks for seven.
    quantize_dynamic(
        fused,
        out,
        per_channel=True,
        reduce_range=not has_vnni(),
        weight_type=QuantType.QInt8,
        # fused operations are not in the standard, so that their outputs' type can't be inferred
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )


def calibration(folder: Path) -> Iterator[dict[str, Any]]:
    """Paragraphs of the sample that are not among the measured texts."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(cases.TOKENS_MAX)
    measured = {text[:40] for text in cases.fixture_texts()}
    sample = cases.ROOT / "samples" / "xquad" / "documents" / "xquad.jsonl"
    texts = [json.loads(line)["text"] for line in sample.read_text(encoding="utf-8").splitlines()]
    others = [text for text in texts if text[:40] not in measured][:CALIBRATION_TEXTS]
    for text in others:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        yield dict(zip(INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))


def quantise_openvino(folder: Path, plain: Path, out: Path) -> None:
    """Static int8 by NNCF, as it advises for transformers, with its guard against overflow where VNNI is missing."""
    import nncf
    import openvino
    from nncf.quantization.advanced_parameters import OverflowFix

    model = openvino.Core().read_model(plain)
    guard = OverflowFix.DISABLE if has_vnni() else OverflowFix.ENABLE
    quantised = nncf.quantize(
        model,
        nncf.Dataset(list(calibration(folder))),
        model_type=nncf.ModelType.TRANSFORMER,
        preset=nncf.QuantizationPreset.MIXED,
        target_device=nncf.TargetDevice.CPU,
        subset_size=CALIBRATION_TEXTS,
        advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=guard),
    )
    openvino.save_model(quantised, out, compress_to_fp16=False)


def export_all(folder: Path, out: Path) -> None:
    """Makes what is missing in `out`, each file as a whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as name:
        made = Path(name)
        if not (out / "plain.onnx").exists():
            export_plain(folder, made / "plain.onnx")
            onnx.checker.check_model(str(made / "plain.onnx"))
            (made / "plain.onnx").rename(out / "plain.onnx")
        if not (out / "fused.onnx").exists():
            fused = fuse(folder, out / "plain.onnx", made / "fused.onnx")
            print(f"export: fused by ONNX Runtime {onnxruntime.__version__}: {fused}", file=sys.stderr)
            (out / "fused.json").write_text(json.dumps(fused) + "\n", encoding="utf-8")
            (made / "fused.onnx").rename(out / "fused.onnx")
        if not (out / "int8.onnx").exists():
            quantise(out / "fused.onnx", made / "int8.onnx")
            (made / "int8.onnx").rename(out / "int8.onnx")
        if not (out / "openvino-int8.xml").exists():
            quantise_openvino(folder, out / "plain.onnx", made / "openvino-int8.xml")
            (made / "openvino-int8.bin").rename(out / "openvino-int8.bin")
            (made / "openvino-int8.xml").rename(out / "openvino-int8.xml")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    export_all(options.model, options.out)


if __name__ == "__main__":
    main()
