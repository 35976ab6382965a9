import type { Clock } from './clock.ts'

/**
 * Calls `act` for each item, one after another, evenly over `ms`; for the first one at once.
 *
 * @param over.rest - called after that
 * @returns function that ends it: neither `act` for the remaining items nor `rest` is called
 */
export function spread<Item>(
  items: readonly Item[],
  act: (item: Item) => void,
  { ms, clock, rest }: { readonly ms: number; readonly clock: Clock; readonly rest: () => void },
): () => void {
  const cancels = items.map((item, i) => clock.after((ms * i) / items.length, () => act(item)))
  cancels.push(clock.after(ms, rest))
  return () => {
    for (const cancel of cancels) cancel()
  }
}
