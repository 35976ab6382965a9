import t from 'tap'
import { systemClock } from '../../../../src/lib/clock.ts'
import {
  chooseSources,
  createSources,
  type DiscoverySettings,
  runsInCluster,
} from '../../../../src/membership/discovery/create-sources.ts'
import { capturedLog } from '../../../support/captured-log.ts'

const create = (settings: DiscoverySettings, inCluster: boolean) => {
  const { log, lines } = capturedLog()
  const components = { log, clock: systemClock, random: () => 0.5 }
  const sources = createSources(components, { settings, surroundings: { inCluster, gossipPort: 8156 } })
  return { sources, lines }
}

t.test('one source for each that is configured', async (t) => {
  const settings = { kubernetes: { service: 'kas' }, dns: 'kas.svc', static: ['10.0.0.7:8156'] }
  const { sources, lines } = create(settings, true)
  t.strictSame(
    sources.map(({ name }) => name),
    ['kubernetes', 'dns', 'static'],
  )
  t.strictSame(lines, [])
})

t.test('what cannot be used is said', async (t) => {
  const { sources, lines } = create({ kubernetes: { service: 'kas' }, static: [] }, false)
  t.strictSame(sources, [])
  t.match(lines, [{ level: 'warn', msg: 'A source of discovery is not used', reason: /does not run in a pod/ }])
})

t.test('a list that is none is refused before anything starts', async (t) => {
  t.throws(() => create({ static: ['10.0.0.7'] }, false), { code: 'SETTINGS_INVALID' })
})

const gossipPort = 7777
const list = ['10.0.0.7:8156']

const table: [what: string, settings: DiscoverySettings, inCluster: boolean, sources: object[], warnings: number][] = [
  ['nothing: alone', { static: [] }, false, [], 0],
  ['nothing, in a cluster: alone', { static: [] }, true, [], 0],
  [
    'a Service, in a cluster',
    { kubernetes: { service: 'kas', namespace: 'gitlab' }, static: [] },
    true,
    [{ kind: 'kubernetes', services: ['kas'], namespace: 'gitlab', otherPort: gossipPort }],
    0,
  ],
  [
    'several Services, in the own namespace',
    { kubernetes: { service: ['kas', 'kas-new', 'kas'] }, static: [] },
    true,
    [{ kind: 'kubernetes', services: ['kas', 'kas-new'], otherPort: gossipPort }],
    0,
  ],
  ['a Service, elsewhere: said, and alone', { kubernetes: { service: 'kas' }, static: [] }, false, [], 1],
  ['a name', { dns: 'kas.svc', static: [] }, false, [{ kind: 'dns', host: 'kas.svc', port: gossipPort }], 0],
  ['a name with a port', { dns: 'kas.svc:9000', static: [] }, true, [{ kind: 'dns', host: 'kas.svc', port: 9000 }], 0],
  ['a list', { static: list }, false, [{ kind: 'static', members: list }], 0],
  [
    'all of them',
    { kubernetes: { service: 'kas' }, dns: 'kas.svc', static: list },
    true,
    [
      { kind: 'kubernetes', services: ['kas'], otherPort: gossipPort },
      { kind: 'dns', host: 'kas.svc', port: gossipPort },
      { kind: 'static', members: list },
    ],
    0,
  ],
  [
    'all of them, elsewhere',
    { kubernetes: { service: 'kas' }, dns: 'kas.svc', static: list },
    false,
    [
      { kind: 'dns', host: 'kas.svc', port: gossipPort },
      { kind: 'static', members: list },
    ],
    1,
  ],
]

for (const [what, settings, inCluster, sources, warnings] of table) {
  t.test(what, async (t) => {
    const choice = chooseSources(settings, { inCluster, gossipPort })
    t.strictSame(choice.sources, sources)
    t.equal(choice.warnings.length, warnings)
  })
}

t.test('a pod knows its API server', async (t) => {
  t.ok(runsInCluster({ KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '443' }))
  t.notOk(runsInCluster({ KUBERNETES_SERVICE_HOST: '10.0.0.1' }))
  t.notOk(runsInCluster({}))
})
