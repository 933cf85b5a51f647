/* From the default schedule to ones that a model thinks faster. */
#ifndef TT_BENCH_WALK_H
#define TT_BENCH_WALK_H

#include "works.h"

/* Walk from `config`, which is legal, to the neighbour with the highest score
 * as long as that is higher by more than the margin. */
void walk(const struct work *, const struct tt_target_model *,
          struct tt_cost_model *, float margin, int *config);
/* The best of a search by simulated annealing from `config`, if it has a
 * higher score. */
void anneal(const struct work *, const struct tt_target_model *,
            struct tt_cost_model *, int evaluations, int *config);

#endif
