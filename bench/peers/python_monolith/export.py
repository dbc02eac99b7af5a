"""Makes a folder with the model as ONNX, in int8 by ONNX Runtime's dynamic quantisation, that both the monolith and Weir load.

    python export.py --model models/all-MiniLM-L6-v2 --out .cache/bench-peers/onnx-int8

The graph takes ids to token embeddings (`last_hidden_state`); pooling is left to whoever loads it. A folder that is there is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import onnx  # noqa: E402
import onnxruntime  # type: ignore[import-untyped]  # noqa: E402
import torch  # noqa: E402
from onnxruntime.quantization import QuantType, quantize_dynamic  # type: ignore[import-untyped]  # noqa: E402
from onnxruntime.transformers.fusion_options import FusionOptions  # type: ignore[import-untyped]  # noqa: E402
from onnxruntime.transformers.optimizer import optimize_model  # type: ignore[import-untyped]  # noqa: E402

OPSET = 17
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "last_hidden_state"
# Graph optimisations of ONNX Runtime itself that are applied before the fusion: 1 is "basic".
RUNTIME_LEVEL = 1


class Encoder(torch.nn.Module):
    """The network alone, with one output."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        from transformers import AutoModel

        # Eager attention: the products and the softmax stay visible, as the fusion wants to find them.
        self.encoder = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """Ids to token embeddings."""
        found: torch.Tensor = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        return found


def has_vnni() -> bool:
    """Whether the processor multiplies bytes without the saturation that AVX2's instruction has."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return "avx512_vnni" in flags or "avx_vnni" in flags


def export_plain(folder: Path, out: Path) -> None:
    """The graph as PyTorch traces it."""
    ids = torch.ones((2, 16), dtype=torch.int64)
    axes = {name: {0: "batch", 1: "tokens"} for name in (*INPUTS, OUTPUT)}
    torch.onnx.export(
        Encoder(folder),
        (ids, ids, ids * 0),
        str(out),
        input_names=list(INPUTS),
        output_names=[OUTPUT],
        dynamic_axes=axes,
        opset_version=OPSET,
        dynamo=False,
    )


def fuse(folder: Path, plain: Path, out: Path) -> None:
    """The optimiser's fusion for BERT."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = optimize_model(
        str(plain),
        model_type="bert",
        num_heads=config["num_attention_heads"],
        hidden_size=config["hidden_size"],
        optimization_options=FusionOptions("bert"),
        opt_level=RUNTIME_LEVEL,
    )
    model.save_model_to_file(str(out))


def quantise(fused: Path, out: Path) -> None:
    """Dynamic int8 with a scale for each output channel; seven bits where eight would overflow."""
    quantize_dynamic(
        fused,
        out,
        per_channel=True,
        reduce_range=not has_vnni(),
        weight_type=QuantType.QInt8,
        # fused operations are not in the standard, so that their outputs' type can't be inferred
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )


def export(folder: Path, out: Path) -> None:
    """The graph and the model's small files, as a whole or not at all."""
    if (out / "model.onnx").exists():
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as name:
        work, made = Path(name), Path(name) / "made"
        export_plain(folder, work / "plain.onnx")
        fuse(folder, work / "plain.onnx", work / "fused.onnx")
        shutil.copytree(folder, made, ignore=shutil.ignore_patterns("*.safetensors", "*.bin", "onnx", ".*"))
        quantise(work / "fused.onnx", made / "model.onnx")
        made.rename(out)
    print(f"export: {out}, by ONNX Runtime {onnxruntime.__version__}", file=sys.stderr)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    export(given.model.resolve(), given.out.resolve())


if __name__ == "__main__":
    main()
