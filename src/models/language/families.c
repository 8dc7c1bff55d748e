/* See families.h. Names are those of llama.cpp's and of Hugging Face's files. */
#include "models/language/families.h"

#include <string.h>

#define NEEDED   QN_LANGUAGE_NEEDED
#define OPTIONAL QN_LANGUAGE_OPTIONAL
#define UNUSED   QN_LANGUAGE_UNUSED

/* What Llama, Qwen, Gemma and Phi have in common. */
#define EMBEDDINGS                                                                                 \
    {"token_embd.weight", "model.embed_tokens.weight", "V E", NULL, NEEDED},                       \
        {"output.weight", "lm_head.weight", "V E", NULL, OPTIONAL}, {                              \
        "output_norm.weight", "model.norm.weight", "E", NULL, NEEDED                               \
    }
#define ATTENTION                                                                                  \
    {"blk.#.attn_norm.weight", "model.layers.#.input_layernorm.weight", "E", NULL, NEEDED},        \
        {"blk.#.attn_q.weight", "model.layers.#.self_attn.q_proj.weight", "Q E", NULL, NEEDED},    \
        {"blk.#.attn_k.weight", "model.layers.#.self_attn.k_proj.weight", "K E", NULL, NEEDED},    \
        {"blk.#.attn_v.weight", "model.layers.#.self_attn.v_proj.weight", "K E", NULL, NEEDED}, {  \
        "blk.#.attn_output.weight", "model.layers.#.self_attn.o_proj.weight", "E Q", NULL, NEEDED  \
    }
#define GATED                                                                                      \
    {"blk.#.ffn_gate.weight", "model.layers.#.mlp.gate_proj.weight", "F E", NULL, NEEDED},         \
        {"blk.#.ffn_up.weight", "model.layers.#.mlp.up_proj.weight", "F E", NULL, NEEDED}, {       \
        "blk.#.ffn_down.weight", "model.layers.#.mlp.down_proj.weight", "E F", NULL, NEEDED        \
    }
#define SECOND_NORM                                                                                \
    { "blk.#.ffn_norm.weight", "model.layers.#.post_attention_layernorm.weight", "E", NULL, NEEDED }
#define HEAD_NORMS                                                                                 \
    {"blk.#.attn_q_norm.weight", "model.layers.#.self_attn.q_norm.weight", "H", NULL, NEEDED}, {   \
        "blk.#.attn_k_norm.weight", "model.layers.#.self_attn.k_norm.weight", "H", NULL, NEEDED    \
    }
#define FREQUENCIES                                                                                \
    { NULL, "model.layers.#.self_attn.rotary_emb.inv_freq", NULL, NULL, UNUSED }
#define END                                                                                        \
    { NULL, NULL, NULL, NULL, NEEDED }

static const qn_language_tensor llama[] = {
    EMBEDDINGS, ATTENTION,   SECOND_NORM,
    GATED,      FREQUENCIES, {"rope_freqs.weight", NULL, "R", NULL, OPTIONAL},
    END,
};

static const qn_language_tensor qwen2[] = {
    EMBEDDINGS,
    ATTENTION,
    SECOND_NORM,
    GATED,
    FREQUENCIES,
    {"blk.#.attn_q.bias", "model.layers.#.self_attn.q_proj.bias", "Q", NULL, NEEDED},
    {"blk.#.attn_k.bias", "model.layers.#.self_attn.k_proj.bias", "K", NULL, NEEDED},
    {"blk.#.attn_v.bias", "model.layers.#.self_attn.v_proj.bias", "K", NULL, NEEDED},
    END,
};

static const qn_language_tensor qwen3[] = {EMBEDDINGS,  ATTENTION, HEAD_NORMS,
                                           SECOND_NORM, GATED,     END};

static const qn_language_tensor gemma3[] = {
    EMBEDDINGS,
    ATTENTION,
    HEAD_NORMS,
    GATED,
    {"blk.#.post_attention_norm.weight", "model.layers.#.post_attention_layernorm.weight", "E",
     NULL, NEEDED},
    {"blk.#.ffn_norm.weight", "model.layers.#.pre_feedforward_layernorm.weight", "E", NULL, NEEDED},
    {"blk.#.post_ffw_norm.weight", "model.layers.#.post_feedforward_layernorm.weight", "E", NULL,
     NEEDED},
    END,
};

static const qn_language_tensor phi3[] = {
    EMBEDDINGS,
    {"blk.#.attn_norm.weight", "model.layers.#.input_layernorm.weight", "E", NULL, NEEDED},
    {"blk.#.attn_qkv.weight", "model.layers.#.self_attn.qkv_proj.weight", "Q+2K E", NULL, NEEDED},
    {"blk.#.attn_output.weight", "model.layers.#.self_attn.o_proj.weight", "E Q", NULL, NEEDED},
    SECOND_NORM,
    {"blk.#.ffn_up.weight", "model.layers.#.mlp.gate_up_proj.weight", "2F E", NULL, NEEDED},
    {"blk.#.ffn_down.weight", "model.layers.#.mlp.down_proj.weight", "E F", NULL, NEEDED},
    {"rope_factors_long.weight", NULL, "R", NULL, OPTIONAL},
    {"rope_factors_short.weight", NULL, "R", NULL, OPTIONAL},
    END,
};

/* The folders' matrices are stored with inputs as rows. */
static const qn_language_tensor gpt2[] = {
    {"token_embd.weight", "transformer.wte.weight", "V E", NULL, NEEDED},
    {"position_embd.weight", "transformer.wpe.weight", "C E", NULL, NEEDED},
    {"output.weight", "lm_head.weight", "V E", NULL, OPTIONAL},
    {"output_norm.weight", "transformer.ln_f.weight", "E", NULL, NEEDED},
    {"output_norm.bias", "transformer.ln_f.bias", "E", NULL, NEEDED},
    {"blk.#.attn_norm.weight", "transformer.h.#.ln_1.weight", "E", NULL, NEEDED},
    {"blk.#.attn_norm.bias", "transformer.h.#.ln_1.bias", "E", NULL, NEEDED},
    {"blk.#.attn_qkv.weight", "transformer.h.#.attn.c_attn.weight", "3E E", "E 3E", NEEDED},
    {"blk.#.attn_qkv.bias", "transformer.h.#.attn.c_attn.bias", "3E", NULL, NEEDED},
    {"blk.#.attn_output.weight", "transformer.h.#.attn.c_proj.weight", "E E", "E E", NEEDED},
    {"blk.#.attn_output.bias", "transformer.h.#.attn.c_proj.bias", "E", NULL, NEEDED},
    {"blk.#.ffn_norm.weight", "transformer.h.#.ln_2.weight", "E", NULL, NEEDED},
    {"blk.#.ffn_norm.bias", "transformer.h.#.ln_2.bias", "E", NULL, NEEDED},
    {"blk.#.ffn_up.weight", "transformer.h.#.mlp.c_fc.weight", "F E", "E F", NEEDED},
    {"blk.#.ffn_up.bias", "transformer.h.#.mlp.c_fc.bias", "F", NULL, NEEDED},
    {"blk.#.ffn_down.weight", "transformer.h.#.mlp.c_proj.weight", "E F", "F E", NEEDED},
    {"blk.#.ffn_down.bias", "transformer.h.#.mlp.c_proj.bias", "E", NULL, NEEDED},
    {NULL, "transformer.h.#.attn.bias", NULL, NULL, UNUSED}, /* the causal mask */
    {NULL, "transformer.h.#.attn.masked_bias", NULL, NULL, UNUSED},
    END,
};

static const qn_language_family families[] = {
    {"Llama",
     "llama",
     "llama mistral",
     "",
     "RMS norm, rotary positions, SiLU gate",
     {.has_neighbours = true},
     llama},
    {"Qwen2",
     "qwen2",
     "qwen2",
     "",
     "RMS norm, rotary positions, SiLU gate, biases of attention",
     {0},
     qwen2},
    {"Qwen3",
     "qwen3",
     "qwen3",
     "",
     "RMS norm, rotary positions, SiLU gate, norms of queries and keys",
     {0},
     qwen3},
    {"Gemma 3",
     "gemma3",
     "gemma3_text",
     "",
     "RMS norm before and after, rotary positions, GELU gate, norms of queries and keys",
     {.has_gelu = true, .scales_embedding = true, .adds_one = true, .global_every = 6},
     gemma3},
    {"Phi-3",
     "phi3",
     "phi3",
     "",
     "RMS norm, rotary positions, SiLU gate, joined matrices",
     {0},
     phi3},
    {"GPT-2",
     "gpt2",
     "gpt2",
     "transformer.",
     "layer norm, learned positions, GELU, biases",
     {.has_gelu = true},
     gpt2},
};

enum { N_FAMILIES = sizeof families / sizeof families[0] };

const qn_language_family *qn_language_family_at(int index) {
    return index < N_FAMILIES ? &families[index] : NULL;
}

/* Whether a word is one of a list with blanks between. */
static bool has_word(const char *list, const char *word) {
    const size_t bytes = strlen(word);
    for (const char *at = list; bytes > 0 && (at = strstr(at, word)); at += bytes) {
        if ((at == list || at[-1] == ' ') && (at[bytes] == ' ' || !at[bytes]))
            return true;
    }
    return false;
}

const qn_language_family *qn_language_family_find(const char *architecture, bool is_gguf) {
    for (int i = 0; i < N_FAMILIES; i++) {
        if (has_word(is_gguf ? families[i].gguf : families[i].folder, architecture))
            return &families[i];
    }
    return NULL;
}
