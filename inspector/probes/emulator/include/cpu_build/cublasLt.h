// See cublas_v2.h.
#if __has_include_next(<cublasLt.h>)
#include_next <cublasLt.h>
#else
#pragma once
#include <cublas_v2.h>
typedef struct cublasLtContext* cublasLtHandle_t;
#endif
