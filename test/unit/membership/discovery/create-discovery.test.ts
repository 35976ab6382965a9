import t from 'tap'
import { systemClock } from '../../../../src/lib/clock.ts'
import type { DiscoverySettings } from '../../../../src/membership/discovery/auto.ts'
import { createDiscovery } from '../../../../src/membership/discovery/create-discovery.ts'
import { capturedLog } from '../../../support/captured-log.ts'

const create = (settings: DiscoverySettings, inCluster: boolean) => {
  const { log, lines } = capturedLog()
  const components = { log, clock: systemClock, random: () => 0.5 }
  const discovery = createDiscovery(components, { settings, surroundings: { inCluster, gossipPort: 8156 } })
  return { discovery, lines }
}

t.test('one source for each that is configured', async (t) => {
  const settings = { kubernetes: { service: 'kas' }, dns: 'kas.svc', static: ['10.0.0.7:8156'] }
  const { discovery, lines } = create(settings, true)
  t.strictSame(
    discovery.sources.map(({ name }) => name),
    ['kubernetes', 'dns', 'static'],
  )
  t.strictSame(lines, [])
})

t.test('what cannot be used is said', async (t) => {
  const { discovery, lines } = create({ kubernetes: { service: 'kas' }, static: [] }, false)
  t.strictSame(discovery.sources, [])
  t.match(lines, [{ level: 'warn', msg: 'A source of discovery is not used', reason: /does not run in a pod/ }])
})

t.test('a list that is none is refused before anything starts', async (t) => {
  t.throws(() => create({ static: ['10.0.0.7'] }, false), { code: 'SETTINGS_INVALID' })
})
