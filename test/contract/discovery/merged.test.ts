import t from 'tap'
import { systemClock } from '../../../src/lib/clock.ts'
import { MergedDiscovery } from '../../../src/membership/discovery/merged.ts'
import { type Lookup, StaticDiscovery } from '../../../src/membership/discovery/static.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { FakeSource } from '../../unit/membership/discovery/fake-source.ts'
import { discoverySuite, type Fault } from './discovery-suite.ts'

/** A source that is tried, beside one that always knows that nobody is there. */
discoverySuite(t, () => {
  let hosts: readonly string[] = []
  let fault: Fault | undefined
  const hanging: PromiseWithResolvers<never>[] = []
  const lookup: Lookup = async () => {
    if (fault === 'failure') throw Object.assign(new Error('again'), { code: 'EAI_AGAIN' })
    if (fault === 'silence') {
      const asked = Promise.withResolvers<never>()
      hanging.push(asked)
      await asked.promise
    }
    return hosts.map((address) => ({ address }))
  }
  const components = { log: capturedLog().log, clock: systemClock, random: () => 0.5, lookup }
  const options = { intervalMs: 50, timeoutMs: 200, firstRetryMs: 20 }
  const one = new StaticDiscovery(components, { ...options, members: ['kas.internal:8156'] })
  const other = new FakeSource('quiet')
  other.become({ addresses: [], stale: false, answered: true })
  return {
    source: new MergedDiscovery({ sources: [one, other] }),
    set: (next) => {
      hosts = next
    },
    inject: (next) => {
      fault = next
      if (next === undefined) for (const asked of hanging.splice(0)) asked.reject(new Error('again'))
    },
    assertAtRest: () => undefined,
  }
})
