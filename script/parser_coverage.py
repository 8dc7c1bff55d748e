#!/usr/bin/python3
"""The lines of the parsers that the fuzz targets reach, from what llvm-cov export -summary-only says:
parser_coverage.py SUMMARY.json. Ends with 1 where a parser is below the part that each must have."""
import json
import sys

LEAST = 85  # per cent
PARSERS = {
    "src/base/decimal.c", "src/data/table/convert.c", "src/data/table/dialect.c", "src/data/table/encoding.c",
    "src/data/table/header.c", "src/data/table/kinds.c", "src/data/table/scan.c", "src/data/table/values.c",
    "src/data/images/bmp.c", "src/data/images/gif.c",
    "src/data/images/heic.c", "src/data/images/idx.c",
    "src/data/images/jpeg.c", "src/data/images/orientation.c", "src/data/images/png.c", "src/data/images/tiff.c",
    "src/data/images/webp.c",
    "src/data/chats/calls.c", "src/data/chats/expression.c", "src/data/chats/jinja.c", "src/data/chats/value.c",
    "src/data/npy.c", "src/data/npz.c", "src/data/series/series.c", "src/data/series/texts.c",
    "src/data/series/wav.c", "src/data/text/characters.c", "src/data/tokens/encode.c",
    "src/data/tokens/from_gguf.c", "src/data/tokens/from_json.c", "src/data/tokens/merges.c", "src/data/tokens/split.c",
    "src/data/tokens/tokenizer.c", "src/data/tokens/vocabulary.c", "src/data/text/corpus.c", "src/data/text/pairs.c",
    "src/data/text/squad.c", "src/data/text/squad_rows.c", "src/data/text/wordpiece.c", "src/data/text/words.c",
    "src/env/protocol.c", "src/format/buffers.c", "src/format/csv.c", "src/format/gzip.c", "src/format/json_stream.c",
    "src/format/metadata.c", "src/format/foreign/name_map.c", "src/format/onnx/onnx_file.c",
    "src/format/onnx/onnx_graph.c", "src/numerics/read.c",
    "src/format/onnx/onnx_names.c", "src/format/onnx/onnx_tensor.c", "src/format/operation_times.c",
    "src/format/own/own_file.c", "src/format/pretrained/gguf.c",
    "src/format/pretrained/pretrained.c", "src/format/pretrained/shards.c", "src/models/language/description.c",
    "src/models/language/settings.c", "src/models/language/tensors_check.c", "src/format/plan_file.c", "src/format/safetensors.c",
    "src/format/foreign/pickle.c", "src/onnx/properties/class_list.c", "src/format/foreign/state_dict.c",
    "src/format/zip.c", "src/format/trace_read.c", "src/kernels/rules.c", "src/plan/schedule/cores_text.c",
    "src/data/labelled.c", "src/label/file.c", "src/label/network/net_file.c", "src/label/rows.c",
    "src/meter/processor.c", "src/meter/roofline.c",
    "src/federate/partition/pachinko.c", "src/federate/partition/users.c", "src/learn/policy.c", "src/learn/senses/senses.c", "src/learn/trace.c",
    "src/meter/sources/coefficients.c", "src/meter/sources/cores.c", "src/meter/sources/replay.c", "src/onnx/axes.c",
    "src/onnx/builder.c", "src/onnx/fold.c", "src/onnx/numbers.c", "src/onnx/operands.c",
    "src/onnx/operators/control.c", "src/onnx/operators/conv_pool.c", "src/onnx/operators/einsum.c",
    "src/onnx/operators/elementwise.c", "src/onnx/operators/functions.c", "src/onnx/operators/index.c",
    "src/onnx/operators/known.c", "src/onnx/operators/matrix.c", "src/onnx/operators/norm.c",
    "src/onnx/operators/recurrent.c", "src/onnx/operators/reduce.c", "src/onnx/images/resample.c",
    "src/onnx/operators/select.c", "src/onnx/operators/shape.c", "src/onnx/recognise.c",
    "src/onnx/recognise_layers.c", "src/tasks/features/unknown.c", "src/plan/swap/swap_speed.c", "src/run/tuning/tuner_cache.c", "src/study/cell.c",
    "src/study/observations.c", "src/study/row.c", "src/tasks/class_weights.c",
}


def main():
    with open(sys.argv[1]) as file:
        files = json.load(file)["data"][0]["files"]
    n_below = n_reached = n_lines = 0
    found = set()
    for file in sorted(files, key=lambda f: f["summary"]["lines"]["percent"]):
        name = "src/" + file["filename"].rpartition("/src/")[2]
        if name not in PARSERS:
            continue
        found.add(name)
        lines = file["summary"]["lines"]
        is_below = lines["percent"] < LEAST
        n_below += is_below
        n_reached += lines["covered"]
        n_lines += lines["count"]
        print(f"{lines['percent']:5.1f} % of {lines['count']:4} lines  {name}"
              + (f"  below {LEAST} %" if is_below else ""))
    print(f"{100 * n_reached / max(n_lines, 1):5.1f} % of {n_lines} lines of {len(found)} files")
    missing = sorted(PARSERS - found)
    if missing:
        print("not there:", ", ".join(missing))
    return n_below > 0 or bool(missing)


if __name__ == "__main__":
    sys.exit(main())
