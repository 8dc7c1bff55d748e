/* Element types and shapes: names, counts, what is valid, text. */
#include "check.h"
#include "tensor/tensor.h"

static void test_dtypes(void) {
    static const size_t bytes[] = {0, 4, 8, 4, 1, 2, 1, 2, 2, 2, 1, 1};
    for (int i = QN_NONE; i <= QN_F8E5M2; i++)
        CHECK(qn_dtype_bytes((qn_dtype)i) == bytes[i]);
    for (int i = QN_F32; i <= QN_F8E5M2; i++)
        CHECK(qn_dtype_find(qn_dtype_name((qn_dtype)i)) == (qn_dtype)i);
    CHECK(qn_dtype_find("none") == QN_NONE && qn_dtype_find("f8") == QN_NONE);
    CHECK(qn_dtype_bytes((qn_dtype)99) == 0);
    CHECK(qn_dtype_is_real(QN_F32) && qn_dtype_is_real(QN_F64) && !qn_dtype_is_real(QN_I32));
    CHECK(!qn_dtype_is_real(QN_BF16) && qn_dtype_is_float(QN_BF16));
    CHECK(qn_dtype_is_float(QN_F8E5M2) && !qn_dtype_is_float(QN_I16) && !qn_dtype_is_float(QN_U8));
}

static void test_counts(void) {
    const qn_shape shape = QN_SHAPE(2, 3, 5), scalar = {0};
    CHECK(qn_shape_count(shape) == 30 && qn_shape_count(scalar) == 1);
    CHECK(qn_shape_count_range(shape, 1, 3) == 15 && qn_shape_count_range(shape, 1, 1) == 1);
    CHECK(qn_tensor_bytes((qn_tensor){QN_U16, shape}) == 60);
    CHECK(qn_shape_equal(shape, qn_shape_make(3, (int64_t[]){2, 3, 5})));
    CHECK(!qn_shape_equal(shape, QN_SHAPE(2, 3, 6)) && !qn_shape_equal(shape, QN_SHAPE(2, 3)));
}

static void test_validity(void) {
    const int64_t most = INT64_C(1) << 59;
    CHECK(qn_shape_is_valid((qn_shape){0}));
    CHECK(qn_shape_is_valid(QN_SHAPE(most)) && !qn_shape_is_valid(QN_SHAPE(most + 1)));
    CHECK(qn_shape_is_valid(QN_SHAPE(most / 2, 2)) && !qn_shape_is_valid(QN_SHAPE(most, 2)));
    CHECK(!qn_shape_is_valid(QN_SHAPE(INT64_MAX, INT64_MAX, INT64_MAX)));
    CHECK(!qn_shape_is_valid(QN_SHAPE(3, 0)) && !qn_shape_is_valid(QN_SHAPE(-1)));
    CHECK(!qn_shape_is_valid((qn_shape){.rank = QN_MAX_RANK + 1}));
    CHECK(!qn_shape_is_valid((qn_shape){.rank = -1}));
}

static void test_print(void) {
    char text[QN_SHAPE_TEXT];
    CHECK(strcmp(qn_shape_print(QN_SHAPE(2, 28, 28, 3), text), "2x28x28x3") == 0);
    CHECK(strcmp(qn_shape_print((qn_shape){0}, text), "scalar") == 0);
    const int64_t long_one = INT64_MIN;
    qn_shape_print(QN_SHAPE(long_one, long_one, long_one, long_one, long_one, long_one), text);
    CHECK(strlen(text) == 6 * 20 + 5);
}

int main(void) {
    test_dtypes();
    test_counts();
    test_validity();
    test_print();
    return checks_finish();
}
