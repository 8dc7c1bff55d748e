/* Options of an import from the settings of a checkpoint. */
#ifndef QN_ONNX_OPTIONS_H
#define QN_ONNX_OPTIONS_H

#include "quern/onnx.h"

/* Fills fields that are null. The texts stay those of the settings (null: there are none). */
void qn_onnx_options_read(const qn_metadata *settings, qn_onnx_options *options);

#endif
