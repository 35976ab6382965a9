import type { Discovered, DiscoverySource } from './source.ts'

/**
 * Several sources as one: who is found by any of them may be there. It has answered once all have. Without a source
 * this replica is alone, which is an answer.
 */
export class MergedDiscovery implements DiscoverySource {
  readonly name = 'merged'
  /** for reports that name each */
  readonly sources: readonly DiscoverySource[]

  constructor(components: { sources: readonly DiscoverySource[] }) {
    this.sources = components.sources
  }

  current(): Discovered {
    const all = this.sources.map((source) => ({ name: source.name, ...source.current() }))
    const errors = all.flatMap(({ name, error }) => (error === undefined ? [] : [`${name}: ${error}`]))
    return {
      addresses: [...new Set(all.flatMap(({ addresses }) => addresses))].sort(),
      stale: all.some(({ stale }) => stale),
      answered: all.every(({ answered }) => answered),
      ...(errors.length > 0 ? { error: errors.join('; ') } : {}),
    }
  }

  onChange(listener: () => void): () => void {
    const undo = this.sources.map((source) => source.onChange(listener))
    return () => undo.forEach((off) => void off())
  }

  /** All at once: none waits for one that fails slowly. */
  async start(): Promise<void> {
    try {
      await Promise.all(this.sources.map((source) => source.start()))
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  async stop(patience?: AbortSignal): Promise<void> {
    const stopped = await Promise.allSettled(this.sources.map((source) => source.stop(patience)))
    const failure = stopped.find(({ status }) => status === 'rejected')
    if (failure) throw (failure as PromiseRejectedResult).reason
  }
}
