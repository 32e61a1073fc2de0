/* The smallest front-end: cc hello.c catchment.c -lpthread && ./a.out catchment+tcp://daq1:7100 */
#include <stdio.h>
#include "catchment.h"

int main(int count, char **arguments) {
    static unsigned short image[256 * 256];
    catchment *c = catchment_connect(count > 1 ? arguments[1] : "catchment+tcp://127.0.0.1:7100",
                                     "camera", NULL);
    for (uint64_t key = 0; c && key < 1000; key++) {
        image[0] = (unsigned short)key;
        if (catchment_send(c, 0, key, image, sizeof image) != CATCHMENT_ACCEPTED) break;
    }
    if (c && catchment_close(c, 10000) == 0) return 0;
    fprintf(stderr, "%s\n", catchment_error());
    return 1;
}
