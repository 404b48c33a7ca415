/* Bit rows of *.def files become mask and value at compile time; a stray letter does not compile.
 */
#ifndef WIRE_ROWS_H
#define WIRE_ROWS_H

#define ROW_CHAR_0 '0'
#define ROW_CHAR_1 '1'
#define ROW_CHAR_a 'a'
#define ROW_CHAR_c 'c'
#define ROW_CHAR_d 'd'
#define ROW_CHAR_e 'e'
#define ROW_CHAR_f 'f'
#define ROW_CHAR_g 'g'
#define ROW_CHAR_i 'i'
#define ROW_CHAR_k 'k'
#define ROW_CHAR_l 'l'
#define ROW_CHAR_m 'm'
#define ROW_CHAR_o 'o'
#define ROW_CHAR_p 'p'
#define ROW_CHAR_r 'r'
#define ROW_CHAR_s 's'
#define ROW_CHAR_t 't'
#define ROW_CHAR_u 'u'
#define ROW_CHAR_x 'x'

/* The bits of a row that hold this letter. */
#define ROW_BITS(letter, b7, b6, b5, b4, b3, b2, b1, b0)                                           \
    ((ROW_CHAR_##b7 == (letter)) << 7 | (ROW_CHAR_##b6 == (letter)) << 6 |                         \
     (ROW_CHAR_##b5 == (letter)) << 5 | (ROW_CHAR_##b4 == (letter)) << 4 |                         \
     (ROW_CHAR_##b3 == (letter)) << 3 | (ROW_CHAR_##b2 == (letter)) << 2 |                         \
     (ROW_CHAR_##b1 == (letter)) << 1 | (ROW_CHAR_##b0 == (letter)))
#define ROW_VALUE(...) ROW_BITS('1', __VA_ARGS__)
#define ROW_MASK(...) (ROW_BITS('0', __VA_ARGS__) | ROW_BITS('1', __VA_ARGS__))

#endif
