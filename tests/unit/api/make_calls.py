"""Writes wrong calls of every public function as C, from the declarations in include/quern:
make_calls.py HEADERS_FOLDER > calls.inc. Each call has one argument, or one field of an options
structure, that is null, out of range, or no number, and is right otherwise. test_wrong_calls.c says
what a right argument of each type is (right_TYPE)."""
import pathlib
import re
import sys

# Null means something there.
MAY_BE_NULL = {"allocator", "user", "should_stop", "changed", "given", "log"}
MAY_BE_NULL_IN = {("qn_predictor_open", "options"), ("qn_data_open", "options"), ("qn_data_open_samples", "options"), ("qn_onnx_model_for", "task"),
                  ("qn_checkpoint_save", "metadata"), ("qn_checkpoint_save_merged", "metadata"),
                  ("qn_checkpoint_load_base", "path"), ("qn_learning_offer", "name")}
# What a caller's own functions get.
OWN = {"self", "user"}
# Lengths of arrays that are given: none can know that there are fewer.
LENGTHS = {"n_parts", "n", "n_programs", "n_best", "n_samples", "n_features", "n_classes"}
WRONG = {"int": ("-1", "INT_MIN", "INT_MAX"), "int32_t": ("-1", "INT32_MIN", "INT32_MAX"), "int64_t": ("-1", "INT64_MIN", "INT64_MAX"),
         "size_t": ("SIZE_MAX", "0", "9"), "double": ("NAN", "-INFINITY", "-1"),
         "uint64_t": ("UINT64_MAX",), "bool": (),
         "qn_value": ("QN_NO_VALUE", "(qn_value){1000000}", "(qn_value){-7}"),
         "qn_shape": ("(qn_shape){0}", "(qn_shape){.rank = -1}", "(qn_shape){.rank = 1000}",
                      "QN_SHAPE(-1, 3)", "QN_SHAPE(INT64_MAX, INT64_MAX)"),
         "qn_window": ("(qn_window){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1}",
                       "(qn_window){INT_MAX, INT_MAX, INT_MAX, INT_MAX, INT_MAX, INT_MAX, INT_MAX, "
                       "INT_MAX, INT_MAX, INT_MAX}", "(qn_window){0}"),
         "qn_initial": ("(qn_initial){(qn_initial_kind)99, NAN}",), "qn_batches": ("(qn_batches){0}",)}


def strip(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def split(text):
    """Arguments, with commas between that are in no parentheses."""
    parts, depth, part = [], 0, ""
    for c in " ".join(text.split()):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [p for p in parts + [part.strip()] if p not in ("", "void")]


def declaration(text):
    """(type, name) of an argument or a field."""
    if text == "...":
        return "...", ""
    function = re.match(r"(.*\(\*)(\w+)(\)\(.*\))$", text)
    if function:
        return function[1] + function[3], function[2]
    plain = re.match(r"(.*?)(\w+)((?:\[[^\]]*\])?)$", text)
    return plain[1].strip() + (" *" if plain[3] else ""), plain[2]


def read(folder):
    functions, structs = [], {}
    for path in sorted(pathlib.Path(folder).glob("*.h")):
        text = strip(path.read_text())
        for m in re.finditer(r"QN_API\s+([^;{]*?)(qn_\w+)\(([^;]*?)\)\s*"
                             r"(?:__attribute__\(\(.*?\)\)\))?\s*;", text, flags=re.S):
            functions.append((" ".join(m[1].split()), m[2], [declaration(a) for a in split(m[3])]))
        for m in re.finditer(r"typedef struct \w+ \{([^{}]*)\} (qn_\w+);", text):
            structs[m[2]] = [declaration(f) for line in m[1].split(";") if line.strip()
                             for f in fields_of(line) if "[" not in f]
    return functions, structs


def fields_of(line):
    """"double a, b" as two."""
    parts = split(line)
    if len(parts) < 2 or "(" in line:
        return [" ".join(line.split())]
    kind = re.match(r"(.*?)[\w\[\]]+$", parts[0])[1]
    return [parts[0]] + [kind.replace("*", "") + p for p in parts[1:]]


def is_enum(kind):
    return kind in ("qn_dtype", "qn_split", "qn_status", "qn_reduction", "qn_border", "qn_schedule",
                    "qn_meter_format", "qn_optimizer", "qn_kernel_tuning", "qn_initial_kind")


def right(kind, name):
    if "(*)" in kind:
        return "NULL"
    word = re.sub(r"\W+", "_", kind.replace("const", "").replace("*", " to ").strip()).strip("_")
    return f"right_{word}({name and chr(34) + name + chr(34)})"


def wrong_values(kind, name):
    if is_enum(kind):
        return [f"({kind})-1", f"({kind})99"]
    values = list(WRONG.get(kind, ()))
    return [v for v in values if "MAX" not in v] if name in LENGTHS else values


class Calls:
    def __init__(self):
        self.n = 0
        self.rows = []

    def put(self, kind, call, before, text, must_fail):
        body = {"qn_status": f"return outcome({call});", "void": f"{call}; return 0;"}.get(
            kind, f"(void){call}; return 0;")
        print(f"static int call_{self.n}(void) {{ {before} {body} }}")
        self.rows.append(f'{{call_{self.n}, "{text}", {str(must_fail).lower()}}},')
        self.n += 1


def options_calls(calls, kind, name, arguments, position, struct, fields):
    """One field after the other wrong."""
    for field_kind, field in fields:
        if field in OWN:
            continue
        values = wrong_values(field_kind, field)
        if "*" in field_kind:
            values = ["NULL"]
        for value in values:
            given = [right(*a) for a in arguments if a[0] != "..."]
            before = f"{struct} o = *{given[position]}; o.{field} = {value};"
            given[position] = "&o"
            calls.put(kind, f"{name}({', '.join(given)})", before,
                      f"{name}: {field} = {value}".replace('"', "'"), False)


def main():
    functions, structs = read(sys.argv[1])
    calls = Calls()
    for kind, name, arguments in functions:
        plain = [a for a in arguments if a[0] != "..."]
        for i, (argument, word) in enumerate(plain):
            values = ["NULL"] if "*" in argument else wrong_values(argument, word)
            for value in values:
                given = [right(*a) for a in plain]
                given[i] = value
                may_be = word in MAY_BE_NULL or (name, word) in MAY_BE_NULL_IN
                is_free = name in ("qn_label", "qn_input") or "destroy" in name or "close" in name
                must_fail = kind == "qn_status" and value == "NULL" and not may_be and not is_free
                calls.put(kind, f"{name}({', '.join(given)})", "",
                          f"{name}: {word} = {value}".replace('"', "'"), must_fail)
            struct = argument.replace("const ", "").replace(" *", "").strip()
            if struct.endswith(("_options", "_preparation", "_source", "_image", "_samples")) and \
                    argument.startswith("const") and struct in structs:
                options_calls(calls, kind, name, arguments, i, struct, structs[struct])
    print("static const wrong_call wrong_calls[] = {")
    print("\n".join(calls.rows))
    print("};")
    print(f"enum {{ FUNCTIONS = {len(functions)} }};")


if __name__ == "__main__":
    main()
