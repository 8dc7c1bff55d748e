/* Safetensors files: what is written is read back, has the format's layout to the byte, and a
 * header that lies is refused with the reason. */
#include "format/safetensors.h"

#include "check.h"

#include <stdlib.h>
#include <unistd.h>

static char root[] = "/tmp/quern-test-safetensors-XXXXXX";
static char path[64];

static void write_bytes(const void *bytes, size_t n_bytes) {
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, n_bytes, file) == n_bytes);
    if (file)
        fclose(file);
}

static void test_layout(void) {
    const float a[2] = {1, 2};
    const uint8_t b[3] = {7, 8, 9};
    const qn_safetensor tensors[] = {
        {"a", QN_F32, {2, {2, 1}}, 0, 8, a, NULL},
        {"b\"\n", QN_U8, {1, {3}}, 0, 3, b, NULL},
    };
    const qn_safetensors_pair pairs[] = {{"k", "v"}, {"l", "\\"}};
    const char header[] =
        "{\"__metadata__\":{\"k\":\"v\",\"l\":\"\\\\\"},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
        "\"b\\\"\\u000a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
    const size_t padded = (strlen(header) + 7) / 8 * 8;
    unsigned char bytes[512];
    CHECK_OK(qn_safetensors_write(NULL, path, tensors, 2, pairs, 2));
    FILE *file = fopen(path, "rb");
    const size_t n_bytes = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose(file);
    CHECK(n_bytes == 8 + padded + 11 && bytes[0] == padded && bytes[1] == 0);
    CHECK(memcmp(bytes + 8, header, strlen(header)) == 0);
    for (size_t i = strlen(header); i < padded; i++)
        CHECK(bytes[8 + i] == ' ');
    CHECK(memcmp(bytes + 8 + padded, a, 8) == 0 && memcmp(bytes + 16 + padded, b, 3) == 0);
}

/* Reads what test_layout wrote. */
static void test_read(void) {
    qn_file *from = NULL;
    qn_safetensors file;
    float a[2];
    CHECK_OK(qn_file_open(NULL, path, &from));
    qn_safetensors_init(&file, NULL);
    CHECK_OK(qn_safetensors_read(&file, from));
    CHECK(file.n_tensors == 2 && file.n_pairs == 2);
    CHECK(strcmp(file.pairs[1].value, "\\") == 0);
    const qn_safetensor *found = qn_safetensors_find(&file, "a");
    CHECK(found && found->dtype == QN_F32 && found->bytes == 8 && found->shape.dims[0] == 2);
    CHECK(qn_safetensors_find(&file, "b\"\n") && !qn_safetensors_find(&file, "c"));
    CHECK(found && qn_file_read(from, file.data_offset + found->begin, a, 8) == QN_OK && a[1] == 2);
    qn_safetensors_deinit(&file);
    qn_file_close(from);
}

#define TENSOR(name, type, shape, begin, end)                                                      \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

/* A header, the bytes that follow it, and what the refusal says; null: it is accepted. */
static const struct {
    const char *header;
    int64_t n_data;
    qn_status status;
    const char *message;
} cases[] = {
    {"{}", 0, QN_OK, NULL},
    {"{}      ", 0, QN_OK, NULL},
    {"{" TENSOR("a", "F32", "[]", "0", "4") "}", 4, QN_OK, NULL},
    {"{" TENSOR("a", "F32", "[0]", "0", "0") "}", 0, QN_OK, NULL},
    {"{" TENSOR("b", "U16", "[2]", "4", "8") "," TENSOR("a", "I32", "[1]", "0", "4") "}", 8, QN_OK,
     NULL},
    {"", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {" {}", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{} x", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{\"a\":", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"[]", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{ \n\"__metadata__\" :\t{ } }", 0, QN_OK, NULL},
    {"{", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{,}", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{\"a\" {}}", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{a:{}}", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{\"__metadata__\":{}", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{\"__metadata__\":{},}", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{\"__metadata__\":{} \"a\":{}}", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{\"__metadata__\":\xef\xbb\xbf{}}", 0, QN_ERROR_FORMAT, "not a JSON object"},
    {"{}", 1, QN_ERROR_FORMAT, "no tensor"},
    {"{\"a\":1}", 0, QN_ERROR_FORMAT, "not an object"},
    {"{\"a\":{}}", 0, QN_ERROR_FORMAT, "dtype"},
    {"{" TENSOR("a", "F32", "[1]", "0", "8") "}", 8, QN_ERROR_FORMAT, "type and shape"},
    {"{" TENSOR("a", "F32", "[2]", "0", "8") "}", 4, QN_ERROR_FORMAT, "outside the file"},
    {"{" TENSOR("a", "F32", "[1]", "4", "0") "}", 4, QN_ERROR_FORMAT, "outside the file"},
    {"{" TENSOR("a", "F32", "[1]", "-4", "0") "}", 4, QN_ERROR_FORMAT, "two counts"},
    {"{" TENSOR("a", "F32", "[1]", "0.5", "4.5") "}", 8, QN_ERROR_FORMAT, "two counts"},
    {"{" TENSOR("a", "F32", "[1]", "0", "1e300") "}", 8, QN_ERROR_FORMAT, "two counts"},
    {"{" TENSOR("a", "F32", "[-1]", "0", "4") "}", 4, QN_ERROR_FORMAT, "extent"},
    {"{" TENSOR("a", "F32", "\"x\"", "0", "4") "}", 4, QN_ERROR_FORMAT, "shape"},
    {"{" TENSOR("a", "F32", "[4294967296,4294967296]", "0", "0") "}", 0, QN_ERROR_FORMAT,
     "type and shape"},
    {"{" TENSOR("a", "F32", "[1,1,1,1,1,1,1]", "0", "4") "}", 4, QN_ERROR_UNSUPPORTED, "axes"},
    {"{" TENSOR("a", "BF16", "[1]", "0", "2") "}", 2, QN_OK, NULL},
    {"{" TENSOR("a", "F8_E4M3", "[3]", "0", "3") "}", 3, QN_OK, NULL},
    {"{" TENSOR("a", "I64", "[1]", "0", "8") "}", 8, QN_ERROR_UNSUPPORTED, "I64"},
    {"{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("b", "F32", "[1]", "2", "6") "}", 6,
     QN_ERROR_FORMAT, "overlaps"},
    {"{" TENSOR("a", "U8", "[1]", "0", "1") "," TENSOR("b", "F32", "[1]", "4", "8") "}", 8,
     QN_ERROR_FORMAT, "gap"},
    {"{" TENSOR("a", "U8", "[1]", "1", "2") "}", 2, QN_ERROR_FORMAT, "gap"},
    {"{" TENSOR("a", "U8", "[1]", "0", "1") "," TENSOR("a", "U8", "[1]", "1", "2") "}", 2,
     QN_ERROR_FORMAT, "tensor a: it is there twice"},
    {"{\"__metadata__\":{\"k\":1}}", 0, QN_ERROR_FORMAT, "not text"},
    {"{\"__metadata__\":[]}", 0, QN_ERROR_FORMAT, "not an object"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, QN_ERROR_FORMAT, "twice"},
    {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, QN_ERROR_FORMAT, "twice"},
};

static void test_headers(void) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_safetensors file;
        qn_safetensors_init(&file, NULL);
        const qn_status status = qn_safetensors_parse(&file, "FILE", cases[i].header,
                                                      strlen(cases[i].header), cases[i].n_data);
        if (cases[i].status == QN_OK)
            CHECK_OK(status);
        else
            CHECK_FAILS(status, cases[i].status, cases[i].message);
        if (cases[i].status != QN_OK)
            CHECK(strncmp(qn_error_message(), "FILE: ", 6) == 0);
        qn_safetensors_deinit(&file);
    }
}

static void check_file_fails(const void *bytes, size_t n_bytes, const char *message) {
    qn_file *from = NULL;
    qn_safetensors file;
    write_bytes(bytes, n_bytes);
    CHECK_OK(qn_file_open(NULL, path, &from));
    qn_safetensors_init(&file, NULL);
    CHECK_FAILS(qn_safetensors_read(&file, from), QN_ERROR_FORMAT, message);
    qn_safetensors_deinit(&file);
    qn_file_close(from);
}

static void test_prefix(void) {
    check_file_fails("", 0, "shorter");
    check_file_fails("\2\0\0\0\0\0\0", 7, "shorter");
    check_file_fails("\3\0\0\0\0\0\0\0{}", 10, "longer than the file");
    check_file_fails("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "longer than the file");
    check_file_fails("\2\0\0\0\0\0\0\x80{}", 10, "longer than the file");
    check_file_fails("\0\0\0\0\0\0\0\0{}", 10, "not a JSON object");
    check_file_fails("\1\0\0\0\0\0\0\0{}", 10, "not a JSON object");
}

int main(void) {
    if (!mkdtemp(root))
        return 2;
    snprintf(path, sizeof path, "%s/file", root);
    test_layout();
    test_read();
    test_headers();
    test_prefix();
    unlink(path);
    rmdir(root);
    return checks_finish();
}
