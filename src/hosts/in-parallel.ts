/** Calls `work` for each item, `width` at once, also for items that are added meanwhile. After an error it begins no more. */
export async function inParallel<T>(width: number, items: T[], work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  let busy = 0;
  let failure: { error: unknown } | undefined;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const more = () => {
    while (!failure && busy < width && next < items.length) {
      busy += 1;
      const item = items[next++] as T;
      work(item)
        .catch((error: unknown) => {
          failure ??= { error };
        })
        .finally(() => {
          busy -= 1;
          more();
        });
    }
    if (busy > 0) return;
    if (failure) reject(failure.error);
    else resolve();
  };
  more();
  return promise;
}
