import type { Discovered, DiscoverySource } from '../../../src/membership/discovery/source.ts'
import { eventually } from '../../support/eventually.ts'

/** Resolves with the source's state once it satisfies `condition`. @throws Error with the last state */
export function discovered(
  source: DiscoverySource,
  condition: (discovered: Discovered) => boolean,
): Promise<Discovered> {
  return eventually(() => {
    const current = source.current()
    if (!condition(current)) throw new Error(`still ${JSON.stringify(current)}`)
    return current
  }, source)
}

export const finds =
  (...addresses: string[]) =>
  (discovered: Discovered): boolean =>
    !discovered.stale && discovered.error === undefined && discovered.addresses.join() === addresses.join()
