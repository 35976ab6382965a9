/** Runs `count` at once, for each item. @throws the first error, once none runs any more */
export async function atOnce<Item>(
  count: number,
  items: Iterable<Item>,
  action: (item: Item) => Promise<void>,
): Promise<void> {
  const left = [...items].reverse()
  const lane = async () => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) await action(item)
  }
  const lanes = Array.from({ length: count }, () =>
    lane().catch((error: unknown) => {
      left.length = 0
      throw error
    }),
  )
  for (const ended of await Promise.allSettled(lanes)) if (ended.status === 'rejected') throw ended.reason
}
