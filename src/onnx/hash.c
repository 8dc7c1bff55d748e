/* What tells one ONNX file from another: FNV-1a over its bytes (Fowler, Noll and Vo; 64 bits), and
 * a number of what it keeps outside. */
#include "base/status.h"
#include "onnx/import.h"
#include "os/os.h"
#include "quern/onnx.h"

#include <inttypes.h>
#include <stdio.h>

static qn_status add_file(qn_file *file, uint64_t *sum) {
    unsigned char part[4096];
    const int64_t bytes = qn_file_bytes(file);
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof part) {
        const size_t n = bytes - at < (int64_t)sizeof part ? (size_t)(bytes - at) : sizeof part;
        QN_TRY(qn_file_read(file, at, part, n));
        for (size_t i = 0; i < n; i++)
            *sum = (*sum ^ part[i]) * UINT64_C(1099511628211);
    }
    return QN_OK;
}

qn_status qn_onnx_hash(const qn_onnx_network *network, char text[QN_ONNX_HASH_TEXT]) {
    QN_NEED(network, "network");
    QN_NEED(text, "text");
    uint64_t sum = UINT64_C(14695981039346656037);
    qn_file *file;
    QN_TRY(qn_file_open(network->allocator, network->model.name, &file));
    const qn_status status = add_file(file, &sum);
    qn_file_close(file);
    snprintf(text, QN_ONNX_HASH_TEXT, "%016" PRIx64,
             sum ^ qn_onnx_file_hash_outside(network->file));
    return status == QN_OK ? qn_onnx_file_check(network->file) : status;
}
