import type { Test } from 'tap'
import type { DiscoverySource } from '../../../src/membership/discovery/source.ts'
import { discovered, finds } from './discovered.ts'

export type Fault = 'failure' | 'silence'

/** A discovery source with a ground that the test controls. Its timers are short: it asks again within a second. */
export interface DiscoveryGround {
  readonly source: DiscoverySource
  /** Sets the hosts from now on: `10.x` addresses with port 8156. */
  set(hosts: readonly string[]): Promise<void> | void
  /**
   * Sets a fault. `failure`: the source's own kind of refusal; `silence`: no answer, also on open connections;
   * undefined: none.
   */
  inject(fault?: Fault): void
  /** @throws Error while the source still has something open */
  assertAtRest(): Promise<void> | void
}

/** Promises of every source (doc/operate/discovery.md). */
export function discoverySuite(t: Test, ground: (t: Test) => Promise<DiscoveryGround> | DiscoveryGround): void {
  const begin = async (t: Test): Promise<DiscoveryGround> => {
    const begun = await ground(t)
    t.teardown(() => begun.source.stop())
    return begun
  }
  const one = '10.1.0.1:8156'
  const two = '10.1.0.2:8156'

  t.test('finds who is there, and tells of changes', async (t) => {
    const { source, set } = await begin(t)
    t.strictSame(source.current(), { addresses: [], stale: false, answered: false })
    await set(['10.1.0.2', '10.1.0.1', '10.1.0.2'])
    await source.start()
    t.strictSame(source.current(), { addresses: [one, two], stale: false, answered: true })
    let told = 0
    const off = source.onChange(() => told++)
    await set(['10.1.0.2'])
    await discovered(source, finds(two))
    t.equal(told, 1, 'one change, told once')
    off()
    await set([])
    await discovered(source, finds())
    t.equal(told, 1, 'whoever left is told nothing')
  })

  for (const fault of ['failure', 'silence'] as const) {
    t.test(`${fault} at first does not keep it from starting`, async (t) => {
      const begun = await begin(t)
      await begun.set(['10.1.0.1'])
      begun.inject(fault)
      await begun.source.start()
      t.match(begun.source.current(), { addresses: [], stale: false, answered: false, error: /./ })
      begun.inject()
      await discovered(begun.source, finds(one))
      t.equal(begun.source.current().answered, true)
    })

    t.test(`${fault} keeps the last answer`, async (t) => {
      const begun = await begin(t)
      await begun.set(['10.1.0.1', '10.1.0.2'])
      await begun.source.start()
      begun.inject(fault)
      const failing = await discovered(begun.source, ({ stale }) => stale)
      t.match(failing, { addresses: [one, two], answered: true, error: /./ })
      await begun.set(['10.1.0.1'])
      begun.inject()
      await discovered(begun.source, finds(one))
    })

    t.test(`it stops during ${fault} and leaves nothing`, async (t) => {
      const begun = await begin(t)
      await begun.set(['10.1.0.1'])
      begun.inject(fault)
      const started = begun.source.start()
      await begun.source.stop()
      await started
      await begun.source.stop()
      await begun.assertAtRest()
    })
  }

  t.test('it stops between answers and leaves nothing', async (t) => {
    const { source, set, assertAtRest } = await begin(t)
    await set(['10.1.0.1'])
    await source.start()
    source.onChange(() => t.fail('told after its stop'))
    const before = source.current()
    await source.stop()
    await set(['10.1.0.2'])
    await assertAtRest()
    t.strictSame(source.current(), before)
    await source.stop()
  })
}
