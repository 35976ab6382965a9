import type { Clock } from './clock.ts'

/**
 * Does the same to each, one after another, evenly over `ms`; to the first at once.
 *
 * @returns ends it: nothing is done to those whose turn has not come
 */
export function spread<Item>(items: readonly Item[], ms: number, act: (item: Item) => void, clock: Clock): () => void {
  const cancels = items.map((item, i) => clock.after((ms * i) / items.length, () => act(item)))
  return () => {
    for (const cancel of cancels) cancel()
  }
}
