/** Gives what has started, and disposes of what could not start. */
export async function started<T extends AsyncDisposable>(it: T, start: (it: T) => Promise<void>): Promise<T> {
  try {
    await start(it);
  } catch (error) {
    await it[Symbol.asyncDispose]();
    throw error;
  }
  return it;
}
