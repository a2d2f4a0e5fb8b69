// Lists that come in pages.

/**
 * All items of a list, up to `most`.
 *
 * @param {(pageToken: string) => Promise<[object[], string]>} read items and the next token
 */
export async function allPages(read, most) {
  const items = [];
  let token = "";
  do {
    const [page, next] = await read(token);
    items.push(...page);
    token = next;
  } while (token && items.length < most);
  return items;
}
