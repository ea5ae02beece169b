/*
 * Marks the loops over rows of pixels that the compiler is to vectorise for the processor it runs on.
 *
 * Each marked function is compiled twice, for any x86-64 and for AVX2, and the dynamic loader picks one. Both compute the same
 * bits, since no stage lets multiply and add contract unless that changes nothing. Within such a pick, sanitizers would run
 * before their own start-up, so their builds take the plain version.
 */
#ifndef FRAMED_GPU_STAGES_VECTOR_H
#define FRAMED_GPU_STAGES_VECTOR_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STAGE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STAGE_SANITIZED 1
#endif
#endif

#if defined(__x86_64__) && defined(__linux__) && !defined(STAGE_SANITIZED)
#define STAGE_VECTOR __attribute__((target_clones("avx2", "default")))
#else
#define STAGE_VECTOR
#endif

/* For loops whose products and sums are all exact, so that multiply and add may contract where the processor can. */
#if defined(__x86_64__) && defined(__linux__) && !defined(STAGE_SANITIZED) && !defined(__clang__) && __GNUC__ >= 12
#define STAGE_VECTOR_EXACT __attribute__((target_clones("arch=x86-64-v3", "default"), optimize("fp-contract=fast")))
#else
#define STAGE_VECTOR_EXACT STAGE_VECTOR
#endif

#endif
