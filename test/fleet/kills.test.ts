/** A thousand calls through a gateway whose nodes are killed again and again. `npm run soak:fleet` makes ten thousand. */
import { expect, test } from 'vitest';
import { noBus } from '../support/fleet.ts';
import { runWithKills } from '../support/fleet-kills.ts';

const title =
  'no call runs twice, and each is told to have run, not to have run, or to be unknown as its node knows it';

test.skipIf(noBus !== undefined)(
  `${title}${noBus ? ` (${noBus})` : ''}`,
  async () => {
    const { told, kills, doubled, wrong } = await runWithKills({ calls: 1_000, killEach: 100 });
    expect({ doubled, wrong }).toEqual({ doubled: [], wrong: [] });
    expect(kills).toBe(9);
    expect(told.success).toBeGreaterThan(900);
    expect(told.unknown).toBeGreaterThan(0);
    // A call that is made just when its connection ends is told by that alone.
    expect(told.unanswered ?? 0).toBeLessThan(5);
  },
  600_000,
);
