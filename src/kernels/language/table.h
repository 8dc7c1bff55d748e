/* The table of this room for a real type and set of instructions; a file defines TABLE. */
#include "kernels/language/causal.h"
#include "kernels/language/gated.h"
#include "kernels/language/rms_norm.h"
#include "kernels/language/rotary.h"
#include "kernels/language/sliced.h"
#include "tensor/widen.h"

const qn_language_kernels TABLE = {
    .widen = widen_blocks,
    .rms_norm_forward = rms_norm_forward,
    .rms_norm_backward = rms_norm_backward,
    .rotary = rotary,
    .gated_forward = gated_forward,
    .gated_backward = gated_backward,
    .causal_attention_forward = causal_attention_forward,
    .causal_attention_backward = causal_attention_backward,
    .causal_attention_workspace = causal_attention_workspace,
    .sliced_cross_entropy = sliced_cross_entropy,
    .sliced_cross_entropy_workspace = sliced_cross_entropy_workspace,
};
