// See cublas_v2.h.
#if __has_include_next(<cusolverDn.h>)
#include_next <cusolverDn.h>
#else
#pragma once
#include <cusolver_common.h>
typedef struct cusolverDnContext* cusolverDnHandle_t;
#endif
