/* GGUF K-quant blocks of 256 weights, in units of 16 bits: Q6_K's 210 bytes are no whole words.
 *
 * Source: the GGUF block formats (Q4_K, Q5_K, Q6_K). Prepared: the blocks of 16 weight rows are
 * interleaved unit by unit, so that 16 neighbouring work-items read 32 neighbouring bytes:
 *
 *     [group of 16 rows][block along k][unit][row in group]
 *
 * It is as large as the raw rows with n rounded up to 16. Rows beyond n are zeros.
 */
#define GROUP 16
#define BLOCK_K 256

#if defined(XPU_FORMAT_Q4_K)
#define UNITS 72
#define NIBBLES 8
#elif defined(XPU_FORMAT_Q5_K)
#define UNITS 88
#define FIFTHS 8
#define NIBBLES 24
#elif defined(XPU_FORMAT_Q6_K)
#define UNITS 105
#define PAIRS 64
#define SCALES 96
#define D 104
#else
#error "compile with one of XPU_FORMAT_Q4_K, XPU_FORMAT_Q5_K, XPU_FORMAT_Q6_K"
#endif
