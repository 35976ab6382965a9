import type { Discovered, DiscoverySource } from '../../../src/membership/discovery/source.ts'

/** What the source says once it satisfies `condition`. @throws Error that shows the last once `timeoutMs` are over */
export function until(
  source: DiscoverySource,
  condition: (discovered: Discovered) => boolean,
  options: { timeoutMs?: number } = {},
): Promise<Discovered> {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (!condition(source.current())) return
      clearTimeout(timer)
      off()
      resolve(source.current())
    }
    const off = source.onChange(look)
    const timer = setTimeout(() => {
      off()
      reject(new Error(`still ${JSON.stringify(source.current())}`))
    }, options.timeoutMs ?? 15_000)
    look()
  })
}

export const finds =
  (...addresses: string[]) =>
  (discovered: Discovered): boolean =>
    !discovered.stale && discovered.error === undefined && discovered.addresses.join() === addresses.join()
