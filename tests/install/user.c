/* What a user of libspex writes: decode the two records given as hex, and make a unit. */
#include <spex/generate.h>
#include <spex/record.h>
#include <spex/spu.h>
#include <spex/verify.h>

#include <stdio.h>

int main(void)
{
    static const uint8_t bytes[] = {0x49, 0x00, 0x52, 0x16, 0x00, 0x98, 0x0c, 0x00, 0x01};
    struct spex_record_reader reader;
    struct spex_record record;
    struct spex_spu_config config = {.size = sizeof config, .features = "neoverse-n1"};
    struct spex_spu *unit;
    struct spex_error error;
    spex_record_reader_init(&reader, bytes, sizeof bytes, 0);
    if (spex_record_next(&reader, &record, NULL) || record.total != 12)
        return 1;
    if (spex_spu_new(&config, &unit, &error))
        return 2;
    spex_spu_free(unit);
    printf("libspex works\n");
    return 0;
}
