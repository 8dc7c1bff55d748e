/* See select.h. */
#include "label/select.h"

float qn_select_smallest(float *v, int n, int k) {
    int low = 0, high = n - 1;
    while (low < high) {
        const float pivot = v[(low + high) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                const float held = v[i];
                v[i++] = v[j];
                v[j--] = held;
            }
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return v[k];
}
