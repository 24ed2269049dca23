/** Whether the screen is as narrow as a hand's, where rows of lists have two lines; the style sheet draws the same line. */
import { computed, signal } from '@preact/signals';

const query = matchMedia('(max-width: 900px)');
const isNarrow = signal(query.matches);
query.addEventListener('change', () => {
  isNarrow.value = query.matches;
});

/** Height of a row of a list of calls, in CSS pixels. */
export const rowPx = computed(() => (isNarrow.value ? 60 : 36));
