/** Finds the notes that hold a word. */
export async function find({ folder, word }, { tools }) {
  const { matches } = await tools.file_grep({ path: folder, pattern: word, literal: true });
  return { files: [...new Set(matches.map((it) => it.file))] };
}

/** Writes a new note; one that is there stays as it is. */
export async function add({ name, text }, { tools }) {
  const path = `notes/${name}.md`;
  await tools.file_write({ path, content: `${text}\n`, overwrite: false });
  return { path };
}
